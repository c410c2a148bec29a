#pragma once
/// \file
/// Defines the library's version; CMake reads it from here.
#define KSCOUT_VERSION "0.1.0"
