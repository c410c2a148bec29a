#include "core/thread_limit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/fail.h"
#include "core/log.h"
#include "core/numbers.h"

namespace kscout {

namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// The number at the start of a text; NaN without one.
double number_at_start(std::string_view text) {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Reads a cgroup version 2 file "quota period" ("max 100000": no quota).
double quota_of_v2(const std::string& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return kNoQuota;
  const double cpus = number_at_start(text) / number_at_start(std::string_view(text).substr(space + 1));
  return cpus > 0 ? cpus : kNoQuota;
}

double quota_of_v1(const std::string& quota_us, const std::string& period_us) {
  const double cpus = number_at_start(quota_us) / number_at_start(period_us);
  return cpus > 0 ? cpus : kNoQuota;  // a quota of -1 means none
}

/// Folders of the process's cgroup with its quota, innermost first, up to the root of the hierarchy. In a
/// container the path may be that of the host, and only the root exists.
struct CgroupFolders {
  std::vector<std::string> v2, v1_cpu, v1_memory;
};

void append_up_to_root(const std::string& root, std::string path, std::vector<std::string>& folders) {
  while (!path.empty() && path != "/") {
    folders.push_back(root + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(root);
}

CgroupFolders cgroup_folders(const ReadText& read) {
  CgroupFolders folders;
  std::istringstream lines(read("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") append_up_to_root("/sys/fs/cgroup", path, folders.v2);
    if (controllers.find(",cpu,") != std::string::npos)
      append_up_to_root("/sys/fs/cgroup/cpu", path, folders.v1_cpu);
    if (controllers.find(",memory,") != std::string::npos)
      append_up_to_root("/sys/fs/cgroup/memory", path, folders.v1_memory);
  }
  return folders;
}

int parse_threads(const char* variable, const std::string& text) {
  const auto value = number_in<int>(text);
  if (!value || *value < 1)
    fail(Errc::invalid_argument, "{}='{}': a whole number of threads, at least 1", variable, text);
  return *value;
}

void lower(ThreadLimit& limit, double threads, std::string because) {
  if (!(threads < limit.threads)) return;
  limit = {static_cast<int>(threads), std::move(because)};
}

}  // namespace

std::string read_text_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

double cpu_quota(const ReadText& read) {
  double least = kNoQuota;
  const CgroupFolders folders = cgroup_folders(read);
  for (const std::string& folder : folders.v2)
    least = std::min(least, quota_of_v2(read(folder + "/cpu.max")));
  for (const std::string& folder : folders.v1_cpu)
    least =
        std::min(least, quota_of_v1(read(folder + "/cpu.cfs_quota_us"), read(folder + "/cpu.cfs_period_us")));
  return least;
}

double memory_quota(const ReadText& read) {
  double least = kNoQuota;
  const CgroupFolders folders = cgroup_folders(read);
  const auto lower_to = [&](const std::string& text) {
    const double bytes = number_at_start(text);  // "max": no number
    if (bytes > 0) least = std::min(least, bytes);
  };
  for (const std::string& folder : folders.v2) lower_to(read(folder + "/memory.max"));
  for (const std::string& folder : folders.v1_memory) lower_to(read(folder + "/memory.limit_in_bytes"));
  constexpr std::string_view kAddresses = "Max address space";  // ulimit -v
  const std::string limits = read("/proc/self/limits");
  if (const std::size_t at = limits.find(kAddresses); at != std::string::npos) {
    const std::string_view rest = std::string_view(limits).substr(at + kAddresses.size());
    lower_to(std::string(rest.substr(std::min(rest.find_first_not_of(' '), rest.size()))));
  }
  return least;
}

double throttled_periods(const ReadText& read) {
  constexpr std::string_view kCount = "nr_throttled ";
  double sum = 0;
  const CgroupFolders folders = cgroup_folders(read);
  for (const auto* all : {&folders.v2, &folders.v1_cpu}) {
    for (const std::string& folder : *all) {
      const std::string text = read(folder + "/cpu.stat");
      const std::size_t at = text.find(kCount);
      if (at != std::string::npos) sum += number_at_start(std::string_view(text).substr(at + kCount.size()));
    }
  }
  return sum;
}

std::string ThreadLimit::refusal(int wanted) const {
  return fmt::format("the config computes with {} threads, {} {} allowed ({})", wanted, threads,
                     threads == 1 ? "is" : "are", because);
}

ThreadLimit present_thread_limit() {
  ThreadLimit limit;
  // "4,2" is for nested regions: the first number belongs to the outermost region. Values that OpenMP ignores
  // are ignored here.
  const double openmp = number_at_start(environment("OMP_NUM_THREADS"));
  if (openmp >= 1) lower(limit, std::floor(openmp), "OMP_NUM_THREADS");
  lower(limit, static_cast<double>(std::max<std::size_t>(usable_cpus().size(), 1)),
        "the CPUs that this process may use");
  const double quota = cpu_quota(read_text_file);
  lower(limit, std::max(std::floor(quota), 1.0), fmt::format("the cgroup's CPU quota of {:.3g} CPUs", quota));
  return limit;
}

ThreadLimit thread_limit(int asked, const Device& device) {
  if (asked < 0)
    fail(Errc::invalid_argument, "threads={}: must be at least 1, or 0 for the default limit", asked);
  if (asked > 0) return {asked, "asked for"};
  if (const std::string text = environment("KSCOUT_THREADS"); !text.empty())
    return {parse_threads("KSCOUT_THREADS", text), "KSCOUT_THREADS"};
  if (device.kind != DeviceKind::cpu) return {};
  const ThreadLimit limit = present_thread_limit();
  const bool limits = !(limit.threads >= device.cores);
  return limits && device.name == detect_cpu().name ? limit : ThreadLimit{};
}

}  // namespace kscout
