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

/// "0-3,8" and back; throws invalid_argument for anything else.
std::string print_ranges(const std::vector<int>& ascending);
std::vector<int> parse_ranges(std::string_view text);

}  // namespace kscout
