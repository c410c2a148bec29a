/* A program that is linked with the libraries. */
#include "run_calls.h"

int main(int argc, char** argv) { return run_calls(argc, argv); }
