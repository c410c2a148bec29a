#include "preload/say.h"
