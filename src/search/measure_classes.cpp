#include "search/measure_classes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "family/legality.h"
#include "family/listed.h"
#include "measure/measured_backend.h"
#include "measure/problem_bench.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/cutlass/cutlass.h"
#include "select/decision_db.h"

namespace kscout {

namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
/// Of each class, the configs with the fastest single samples are timed in rounds.
constexpr std::size_t kFinalists = 4;
/// Of the chosen class, the fastest members at each timed M are kept.
constexpr std::size_t kKept = 4;

/// Throws unless the M are ascending from 1.
void check_rows(std::span<const std::int64_t> m) {
  if (m.empty()) fail(Errc::invalid_argument, "no M is given; give at least one");
  for (std::size_t i = 0; i < m.size(); ++i) {
    if (m[i] < 1) fail(Errc::invalid_argument, "M {}: must be at least 1", m[i]);
    if (i > 0 && m[i] <= m[i - 1])
      fail(Errc::invalid_argument, "M {} after {}: give ascending numbers", m[i], m[i - 1]);
  }
}

/// Whether a config is one kernel that divides K alike at every M, and gives equal bits in every run.
bool is_fixed_kernel(ProblemRef problem, const KernelConfig& config, const Traits& traits,
                     const Device& device) {
  const bool stream_k =
      config.space == &cutlass_gemm_space &&
      CutlassConfig::from(config).decomposition == static_cast<std::int32_t>(CutlassDecomposition::stream_k);
  const bool chosen_at_run_time = traits.suggestion > 0 || !(traits.split_k > 0) || stream_k;
  return !chosen_at_run_time && deterministic_refusal(problem, config, device).empty();
}

/// Groups rows by their bits.
class Classes {
 public:
  /// The class of these rows, a new one if none has them; kNoClass for rows that agree with a class in some
  /// patterns only.
  std::int32_t of(const RowBits& bits) {
    if (!bits.why.empty()) return kNoClass;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].of_pattern[0] != bits.of_pattern[0]) continue;
      if (!all_[i].agrees(bits)) return kNoClass;
      for (std::size_t at = 0; at < bits.of_pattern.size(); ++at) {
        if (all_[i].of_pattern[at] == 0) all_[i].of_pattern[at] = bits.of_pattern[at];
      }
      return static_cast<std::int32_t>(i);
    }
    all_.push_back(bits);
    return static_cast<std::int32_t>(all_.size()) - 1;
  }
  const std::vector<RowBits>& all() const noexcept { return all_; }

 private:
  std::vector<RowBits> all_;
};

/// Times the configs of a weight at one M after the other.
class ClassTimer {
 public:
  ClassTimer(Backend& backend, const Problem& weight, double seconds)
      : backend_(backend),
        weight_(weight),
        bench_(protocol(instruments_of(backend), seconds), 1, instruments_of(backend)) {}

  /// `covering`: by class, whether it is timed.
  void time(std::size_t at, const std::vector<bool>& covering, ClassMeasurement& measured) {
    bench_.open(with_m(weight_, measured.m[at]));
    std::map<std::int32_t, double> best_us;  // by class
    for (ClassedConfig& one : measured.configs) {
      if (one.classes[at] == kNoClass || !covering[static_cast<std::size_t>(one.classes[at])]) continue;
      double& best =
          best_us.try_emplace(one.classes[at], std::numeric_limits<double>::infinity()).first->second;
      take(bench_.coarse({&backend_, one.config}, best), at, one);
      if (one.time_us[at] < best) best = one.time_us[at];
    }
    const std::vector<ClassedConfig*> finalists = fastest_of_classes(at, measured);
    std::vector<Candidate> candidates;
    for (const ClassedConfig* one : finalists) candidates.push_back({&backend_, one->config});
    if (candidates.empty()) return;
    bench_.contenders(candidates,
                      [&](std::size_t i, const Outcome& outcome) { take(outcome, at, *finalists[i]); });
  }

 private:
  static Protocol protocol(const Instruments& device, double seconds) {
    const bool host = &device == &host_instruments();
    Protocol protocol{.contenders = 48, .rounds = 16, .rounds_budget_us = seconds * 1e6};
    if (!host) {
      protocol.cache = CacheState::cold;
      protocol.slack_us = 0;
    }
    return protocol;
  }

  static void take(const Outcome& outcome, std::size_t at, ClassedConfig& one) {
    const Measurement& m = outcome.measured;
    if (m.status == Status::ok || m.status == Status::pruned_early) {
      one.time_us[at] = m.time_us;
      return;
    }
    if (m.status == Status::wrong) {  // not to be trusted anywhere
      std::ranges::fill(one.classes, kNoClass);
      std::ranges::fill(one.time_us, kUnknown);
      return;
    }
    one.classes[at] = kNoClass;
    one.time_us[at] = kUnknown;
  }

  static std::vector<ClassedConfig*> fastest_of_classes(std::size_t at, ClassMeasurement& measured) {
    std::map<std::int32_t, std::vector<ClassedConfig*>> by_class;
    for (ClassedConfig& one : measured.configs) {
      if (one.classes[at] != kNoClass && !std::isnan(one.time_us[at]))
        by_class[one.classes[at]].push_back(&one);
    }
    std::vector<ClassedConfig*> finalists;
    for (auto& [id, members] : by_class) {
      std::ranges::sort(members, {}, [at](const ClassedConfig* one) { return one->time_us[at]; });
      members.resize(std::min(members.size(), kFinalists));
      finalists.insert(finalists.end(), members.begin(), members.end());
    }
    return finalists;
  }

  Backend& backend_;
  Problem weight_;
  ProblemBench bench_;
};

/// The members of a class at the compared M.
StoredClass stored_class(const ClassMeasurement& measured, std::int32_t id, Signature signature) {
  StoredClass stored;
  stored.m = measured.m;
  for (const ClassedConfig& one : measured.configs) {
    ClassMember member{.config = config_name(signature, one.config), .equal = {}, .time_us = {}};
    for (std::size_t at = 0; at < measured.m.size(); ++at) {
      const bool equal = one.classes[at] == id;
      member.equal.push_back(equal);
      member.time_us.push_back(equal ? one.time_us[at] : kUnknown);
    }
    if (std::ranges::find(member.equal, 1) != member.equal.end()) stored.members.push_back(std::move(member));
  }
  return stored;
}

/// Whether some member was equal at each compared M.
bool may_cover_all(const StoredClass& one) {
  for (std::size_t at = 0; at < one.m.size(); ++at) {
    const auto is_equal = [at](const ClassMember& member) { return member.equal[at] != 0; };
    if (std::ranges::none_of(one.members, is_equal)) return false;
  }
  return true;
}

/// Whether some member holds at every M up to the largest.
bool covers_all(const StoredClass& one) {
  for (std::int64_t m = 1; m <= one.m.back(); ++m) {
    const auto holds = [&](const ClassMember& member) { return one.holds(member, m); };
    if (std::ranges::none_of(one.members, holds)) return false;
  }
  return true;
}

/// Geometric mean, over the timed M, of the time of the class's fastest member; infinite where none was
/// timed.
double cost_of(const StoredClass& one, std::span<const std::int64_t> timed) {
  double logs = 0;
  for (std::size_t at = 0; at < one.m.size(); ++at) {
    if (!std::ranges::binary_search(timed, one.m[at])) continue;
    double best_us = std::numeric_limits<double>::infinity();
    for (const ClassMember& member : one.members) best_us = std::fmin(best_us, member.time_us[at]);
    logs += std::log(best_us);
  }
  return std::exp(logs / static_cast<double>(timed.size()));
}

}  // namespace

std::vector<std::int64_t> usual_class_rows() {
  std::vector<std::int64_t> rows = {1, 2, 3};
  for (std::int64_t m = 4; m < 4096; m *= 2) rows.insert(rows.end(), {m, m + m / 2});
  rows.push_back(4096);
  return rows;
}

std::vector<std::int64_t> compared_rows(std::span<const std::int64_t> timed) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t m : timed) {
    // Odd numbers in the middle: their last tile is not full.
    if (!rows.empty() && m - rows.back() > 1) rows.push_back(std::min((rows.back() + m) / 2 | 1, m - 1));
    rows.push_back(m);
  }
  return rows;
}

std::vector<KernelConfig> class_candidates(const Selector& selector, Backend& backend, ProblemRef weight,
                                           std::span<const std::int64_t> m, const CandidateLimits& limits) {
  const Device& device = backend.device();
  std::vector<KernelConfig> found;
  std::set<std::string> names;
  bool suggests = true;
  const auto add = [&](ProblemRef problem, const KernelConfig& config, const Traits& traits) {
    if (!is_fixed_kernel(problem, config, traits, device) || !backend.refusal(problem, config).empty())
      return;
    if (names.insert(config_name(signature_of(problem), config)).second) found.push_back(config);
  };
  const auto own_config = [&](ProblemRef problem, const KernelConfig& config) {
    const KernelConfig own = parse_config_name(config_name(signature_of(problem), config)).config;
    const auto algorithm = listed_config(own, 0);  // its place differs from M to M
    return algorithm && CublasLtConfig::from(own).is_named() ? *algorithm : own;
  };
  const auto traits_of = [&](ProblemRef problem, const KernelConfig& config) {
    return provider(config.space->provider).traits(signature_of(problem), config, device);
  };
  for (const std::int64_t rows : m) {
    const Problem problem = with_m(weight, rows);
    std::size_t place = 0;
    std::map<std::pair<double, double>, std::size_t> of_split;
    for (const Choice& choice : selector.rank(problem, kAll)) {
      const KernelConfig config = own_config(problem, choice.config);
      if (!backend.executes(config.space->provider)) continue;
      const Traits traits = traits_of(problem, config);
      const bool among_best = place++ < limits.top;
      const double kind = std::isnan(traits.kind) ? 0 : traits.kind;
      if (!(traits.split_k > 0)) continue;
      if (of_split[{kind, traits.split_k}]++ < limits.of_split || among_best) add(problem, config, traits);
    }
    if (!suggests) continue;
    try {
      for (const KernelConfig& config : backend.suggestions(problem, limits.suggestions)) {
        if (rule_verdict(problem, config, device).status != VerdictStatus::refused)
          add(problem, config, traits_of(problem, config));
      }
    } catch (const Error& error) {  // no library
      if (error.code() != Errc::unsupported) throw;
      suggests = false;
    }
  }
  return found;
}

namespace {

/// The fastest members at each timed M.
std::vector<ClassMember> fastest_members(const StoredClass& of, std::size_t count) {
  std::set<std::size_t> kept;
  for (std::size_t at = 0; at < of.m.size(); ++at) {
    std::vector<std::pair<double, std::size_t>> timed;
    for (std::size_t i = 0; i < of.members.size(); ++i) {
      if (!std::isnan(of.members[i].time_us[at])) timed.emplace_back(of.members[i].time_us[at], i);
    }
    std::ranges::sort(timed);
    for (std::size_t i = 0; i < std::min(count, timed.size()); ++i) kept.insert(timed[i].second);
  }
  std::vector<ClassMember> members;
  for (const std::size_t i : kept) members.push_back(of.members[i]);
  return members;
}

/// Runs members at every M up to `every`; those of the compared M above it stay.
StoredClass compared_everywhere(const StoredClass& of, const std::vector<ClassMember>& members,
                                std::int64_t every, const RowBits& bits, RowRuns& runs) {
  StoredClass all;
  all.every = std::min(every, of.m.back());
  for (std::int64_t m = 1; m <= all.every; ++m) all.m.push_back(m);
  std::ranges::copy_if(of.m, std::back_inserter(all.m), [&](std::int64_t m) { return m > all.every; });
  for (const ClassMember& member : members) {
    ClassMember& one = all.members.emplace_back(ClassMember{member.config, {}, {}});
    const KernelConfig config = parse_config_name(member.config).config;
    for (const std::int64_t m : all.m) {
      const auto known = std::ranges::lower_bound(of.m, m);
      const auto at = static_cast<std::size_t>(known - of.m.begin());
      const bool was_compared = known != of.m.end() && *known == m;
      one.equal.push_back(was_compared ? member.equal[at] : runs.run(config, m).agrees(bits));
      one.time_us.push_back(was_compared ? member.time_us[at] : kUnknown);
    }
  }
  return all;
}

}  // namespace

ClassMeasurement measure_classes(Backend& backend, ProblemRef weight, std::span<const KernelConfig> configs,
                                 const ClassesRequest& request) {
  check_rows(request.m);
  if (request.every < 1)
    fail(Errc::invalid_argument, "every={}: rows are compared at each M up to it; give at least 1",
         request.every);
  const Problem identity = without_m(weight);
  const Signature signature = signature_of(identity);
  const auto tell = [&](const std::string& part) {
    if (request.progress) request.progress(print(identity) + ": " + part);
  };
  ClassMeasurement measured;
  measured.m = compared_rows(request.m);
  Classes classes;
  RowRuns runs(backend, identity, measured.m.back());
  for (const KernelConfig& config : configs) {
    ClassedConfig& one = measured.configs.emplace_back(ClassedConfig{config, {}, {}});
    for (const std::int64_t m : measured.m) one.classes.push_back(classes.of(runs.run(config, m)));
    one.time_us.resize(measured.m.size(), kUnknown);
  }
  std::vector<bool> covering;
  for (std::size_t id = 0; id < classes.all().size(); ++id)
    covering.push_back(may_cover_all(stored_class(measured, static_cast<std::int32_t>(id), signature)));
  tell(fmt::format("{} configs in {} classes, of which {} cover all M", configs.size(), covering.size(),
                   std::ranges::count(covering, true)));
  ClassTimer timer(backend, identity, request.seconds);
  for (std::size_t at = 0; at < measured.m.size(); ++at) {
    if (!std::ranges::binary_search(request.m, measured.m[at])) continue;
    timer.time(at, covering, measured);
    tell(fmt::format("timed M = {}", measured.m[at]));
  }
  std::vector<std::pair<double, std::int32_t>> by_cost;
  for (std::size_t i = 0; i < classes.all().size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const StoredClass one = stored_class(measured, id, signature);  // wrong configs have left
    if (covering[i] && may_cover_all(one)) by_cost.emplace_back(cost_of(one, request.m), id);
  }
  std::ranges::sort(by_cost);
  for (const auto& [cost, id] : by_cost) {
    const StoredClass one = stored_class(measured, id, signature);
    const RowBits& bits = classes.all()[static_cast<std::size_t>(id)];
    for (const auto& members : {fastest_members(one, kKept), one.members}) {
      measured.stored = compared_everywhere(one, members, request.every, bits, runs);
      if (!covers_all(measured.stored)) continue;
      measured.chosen = id;
      break;
    }
    if (measured.chosen != kNoClass) break;
  }
  if (measured.chosen == kNoClass)
    fail(Errc::unsupported,
         "{}: none of {} classes of {} configs covers every M from 1 to {}; compare more configs, or fewer M",
         print(identity), classes.all().size(), configs.size(), request.m.back());
  StoredClass& stored = measured.stored;
  stored.weight = print(identity);
  stored.device = device_identity(backend.device());
  stored.backend = std::string(backend.name());
  stored.library = library_release(backend);
  stored.bits = classes.all()[static_cast<std::size_t>(measured.chosen)].text();
  stored.classes = static_cast<std::int64_t>(classes.all().size());
  return measured;
}

Recheck recheck_class(Backend& backend, const StoredClass& stored) {
  const auto differs = [&](const std::string& what, const std::string& then, const std::string& now) {
    if (then != now)
      fail(Errc::unsupported, "{}: its classes were measured on {} {}, here is {}; measure them again",
           stored.weight, what, then, now);
  };
  differs("backend", stored.backend, std::string(backend.name()));
  differs("device", stored.device, device_identity(backend.device()));
  differs("release", stored.library, library_release(backend));
  const RowBits expected = RowBits::parse(stored.bits);
  RowRuns runs(backend, parse_any_problem(stored.weight), stored.m.back());
  Recheck result;
  for (const ClassMember& member : stored.members) {
    const KernelConfig config = parse_kernel_to_run(member.config).config;
    for (std::size_t at = 0; at < stored.m.size(); ++at) {
      if (member.equal[at] == 0) continue;
      ++result.runs;
      const RowBits bits = runs.run(config, stored.m[at]);
      if (!bits.agrees(expected))
        result.changed.push_back(fmt::format("{} at M = {}", member.config, stored.m[at]));
    }
  }
  return result;
}

}  // namespace kscout
