#pragma once
/// \file
/// Empties caches of a buffer, so that the next read comes from memory: the "cold" protocol.
///
///     flush_from_caches(a, bytes); flush_from_caches(b, bytes); finish_flushes();
///
/// Flushes the lines of the operands themselves (x86 `clflush`, which reaches every level and every core)
/// instead of walking a buffer larger than the last level: the cost follows the operands,
/// and nothing of the kernel's code or of the program is lost with them.
#include <cstddef>

namespace kscout {

void flush_from_caches(const void* data, std::size_t bytes) noexcept;
/// Waits until all flushes are done.
void finish_flushes() noexcept;

}  // namespace kscout
