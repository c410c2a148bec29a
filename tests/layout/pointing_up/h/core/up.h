#include "select/model.h"
