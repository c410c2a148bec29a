#pragma once
/// \file
/// Which CPUs a process may use.
///
///     const auto shares = share_cpus(allowed_cpus(), 2);
///     use_only(shares[0]);        // before any thread is created: threads inherit it
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

/// CPUs this process may run on, ascending.
std::vector<int> allowed_cpus();
/// Restricts the calling thread, and those it creates from now on. Throws device_failure.
void use_only(const std::vector<int>& cpus);
/// Contiguous parts of nearly equal size. With more workers than CPUs, CPUs are shared.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int workers);

/// CPUs that a list may name; Linux can be built for at most 8,192 (CONFIG_NR_CPUS on x86).
inline constexpr int kMaxCpus = 8192;

/// "0-3,8" and back. Values lie below `limit`, which bounds the memory that a hostile "0-999999999" can take.
/// Throws invalid_argument for anything else.
std::string print_ranges(const std::vector<int>& ascending);
std::vector<int> parse_ranges(std::string_view text, int limit);

}  // namespace kscout
