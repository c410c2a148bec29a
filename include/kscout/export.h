#pragma once
/// \file
/// Marks what libkscout.so lets a program see; everything else stays hidden.
#define KSCOUT_API __attribute__((visibility("default")))
