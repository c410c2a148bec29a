#pragma once
/// \file
/// Marks the symbols that libkscout.so exports; all other symbols are hidden.
#define KSCOUT_API __attribute__((visibility("default")))
