#pragma once
/// \file
/// Skips tests that fork while other threads allocate, where the child cannot allocate then.
///
///     TEST(Thing, WorksInAChild) {
///       KSCOUT_SKIP_IF_FORKS_HANG();
///
/// The C library's allocator is usable in a child of a program with threads; that of clang's address
/// sanitizer may be locked there for ever (seen in one run in ten with clang 14).
#include <gtest/gtest.h>

#if defined(__clang__)
#if __has_feature(address_sanitizer)
#define KSCOUT_SKIP_IF_FORKS_HANG() \
  GTEST_SKIP() << "the address sanitizer's allocator may be locked in the child: NOT tested here"
#endif
#endif
#ifndef KSCOUT_SKIP_IF_FORKS_HANG
#define KSCOUT_SKIP_IF_FORKS_HANG() static_cast<void>(0)
#endif
