
#include "measure/timing.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include <sched.h>

#include "core/fail.h"

namespace kscout {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void use_only(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE)
      fail(Errc::invalid_argument, "CPU {}: 0 to {} exist", cpu, CPU_SETSIZE - 1);
    CPU_SET(cpu, &set);
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    fail(Errc::device_failure, "cannot run on CPUs {}: {}", print_ranges(cpus), std::strerror(errno));
  }
}

std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int workers) {
  std::vector<std::vector<int>> shares;
  const auto count = static_cast<int>(cpus.size());
  for (int w = 0; w < workers; ++w) {
    if (count < workers) {
      shares.push_back({cpus[static_cast<std::size_t>(w % count)]});
      continue;
    }
    const int size = count / workers;
    shares.emplace_back(cpus.begin() + w * size, cpus.begin() + (w + 1) * size);
  }
  return shares;
}

std::string print_ranges(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ascending[i]);
    if (last > i) text += "-" + std::to_string(ascending[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> parse_ranges(std::string_view text, int limit) {
  std::vector<int> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0) {
      fail(Errc::invalid_argument, "'{}': expected numbers and ranges like 0-3,8", text);
    }
    at = next;
    return value;
  };
  while (at != end) {
    const int first = number();
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first || (!values.empty() && first <= values.back())) {
      fail(Errc::invalid_argument, "'{}': ranges must ascend", text);
    }
    if (last >= limit) fail(Errc::invalid_argument, "'{}': {} is not below {}", text, last, limit);
    for (int value = first; value <= last; ++value) values.push_back(value);
    if (at == end) break;
    if (*at != ',' || at + 1 == end)
      fail(Errc::invalid_argument, "'{}': expected numbers and ranges like 0-3,8", text);
    ++at;
  }
  return values;
}

}  // namespace kscout

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace kscout {

#if defined(__x86_64__)

void flush_from_caches(const void* data, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  const char* const begin = static_cast<const char*>(data);
  for (std::size_t at = 0; at < bytes; at += kLine) _mm_clflush(begin + at);
  if (bytes > 0) _mm_clflush(begin + bytes - 1);
}

void finish_flushes() noexcept { _mm_mfence(); }

#else

// Without a flush instruction for user code, walk a buffer larger than common last-level caches.
void flush_from_caches(const void*, std::size_t) noexcept {}

void finish_flushes() noexcept {
  static std::vector<char> walk(std::size_t{96} << 20, 1);
  for (std::size_t at = 0; at < walk.size(); at += 64) {
    auto& byte = const_cast<volatile char&>(walk[at]);
    byte = static_cast<char>(byte + 1);
  }
}

#endif

}  // namespace kscout
