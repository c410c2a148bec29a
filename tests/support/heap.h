#pragma once
/// \file
/// What a program takes from the heap through operator new. Link support/heap.cpp into the test program.
///
///     const HeapWatch watch;
///     auto model = Model::load(folder);
///     EXPECT_LE(watch.live(), 4 * file_size);
///     EXPECT_EQ(watch.allocations(), 0u);          // of a path that must not allocate
///
/// Counts all threads. malloc called directly (zlib, SQLite) is not seen.
#include <cstddef>

namespace kscout {

/// Counts from its construction on. One watch at a time: the highest mark is the program's.
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
