#pragma once
/// \file
/// Counts a program's heap use through operator new. Link support/heap.cpp into the test program.
///
///     const HeapWatch watch;
///     auto model = Model::load(folder);
///     EXPECT_LE(watch.live(), 4 * file_size);
///     EXPECT_EQ(watch.allocations(), 0u);          // of a path that must not allocate
///
/// Counts all threads. Direct calls of malloc (zlib, SQLite) are not counted.
#include <cstddef>

namespace kscout {

/// Counts from its construction on. One watch at a time, because the peak is global.
class HeapWatch {
 public:
  HeapWatch();
  std::size_t allocations() const;  ///< calls of operator new
  std::ptrdiff_t live() const;      ///< bytes taken and not given back
  std::ptrdiff_t peak() const;      ///< highest value of live()

 private:
  std::size_t allocations_;
  std::ptrdiff_t live_;
};

}  // namespace kscout
