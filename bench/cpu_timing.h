#pragma once
/// \file
/// Times configs of backend `cpu` and other libraries side by side on one fp32 problem.
///
///     CpuTimer timer(problem);
///     for (std::size_t i = 0; i < family.configs.size(); ++i) timer.add(family.configs[i], family.name(i));
///     timer.match().add({.name = "onednn", .peer = true, .call = [&] { ... timer.a() ... }});
///     timer.match().coarse();
///     timer.match().interleaved(6);
///
/// All candidates use the same operands, filled with values in [-1, 1]. A filter that the problem packs once
/// is packed before a series of calls, outside its time.
#include <memory>
#include <string>
#include <vector>

#include <kscout/backend.h>

#include "side_by_side.h"

namespace kscout::bench {

/// Memory aligned to a page, not initialised.
struct Pages {
  explicit Pages(std::size_t bytes);
  std::unique_ptr<void, void (*)(void*)> data;
  float* floats() const { return static_cast<float*>(data.get()); }
};

class CpuTimer {
 public:
  explicit CpuTimer(const Problem& problem);

  /// Microseconds of packing the filter for the candidate that was added last, the fastest of a few; 0 when
  /// it packs nothing before its runs.
  double last_setup_us() const;
  /// Null when the backend rejects the config.
  Candidate* add(const KernelConfig& config, const std::string& name, bool extra = false);
  /// Adds the configs of a rule set that apply to the problem and meet the filter.
  void add_rule_set(const std::string& rules, const std::string& filter = "");
  /// Runs a candidate once on a C that is filled with NaN.
  void run_on_poisoned(const Candidate& candidate) const;

  SideBySide& match() { return match_; }
  const SideBySide& match() const { return match_; }
  float* a() const { return a_.floats(); }
  float* b() const { return b_.floats(); }
  float* c() const { return c_.floats(); }
  std::int64_t c_elements() const { return sizes_.c; }

 private:
  /// What counts as our time: one run of the launch. A config that packs an operand packs it in this call,
  /// except a filter that the problem packs once.
  static std::function<void()> timed_call(Launch& launch, const GemmBuffers& buffers,
                                          std::shared_ptr<Pages> workspace, std::shared_ptr<Pages> packed);

  Problem problem_;
  OfOperands<std::int64_t> sizes_;
  Pages a_, b_, c_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::size_t workspace_bytes_ = 0;
  std::shared_ptr<Pages> workspace_;
  std::size_t packed_bytes_ = 0;
  std::shared_ptr<Pages> packed_;  ///< the filter, packed for one candidate at a time
  SideBySide match_;
};

/// The part of a config's name behind the signature, which every config of a problem shares.
std::string short_name(const std::string& name);
double gflops(const Problem& problem, double time_us);
/// "-" for a ratio that is not known.
std::string ratio_text(double value);
/// CPUs that other processes keep busy; from here on, times are unreliable and the load is printed.
inline constexpr double kLoaded = 0.2;
/// The end of a row: empty below kLoaded.
std::string load_text(double others);

}  // namespace kscout::bench
