#pragma once
/* Calls the libraries as the words of the command line say; returns 1 when a status is wrong. */
int run_calls(int argc, char** argv);
