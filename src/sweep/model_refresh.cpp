#include "sweep/model_refresh.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include <kscout/provider.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/harvest.h"
#include "backend/cuda/matmul_launch.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/owners.h"
#include "family/rules.h"
#include "op/operation.h"
#include "provider/joint.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;
using namespace cuda;

/// Sizes (m, n, k) that only some algorithms take: vectors, k = 1, odd ones.
constexpr std::array<std::array<std::int64_t, 3>, 6> kSpecial = {
    {{256, 256, 128}, {1, 1024, 1024}, {1024, 1, 1024}, {512, 512, 1}, {4, 512, 1024}, {199, 301, 103}}};
/// Problems that are drawn besides, to ask the library about. Run are the special ones and the recorded ones,
/// of a model without recorded ones also so many of those drawn.
constexpr std::size_t kAsked = 60, kRunUnrecorded = 10;
/// To find an algorithm's new number: so many of its configs on so many problems.
constexpr std::size_t kVoters = 24, kVoted = 12;
constexpr double kAskedGflop = 100, kAskedBytes = 2e8;
/// One pass: the sample shows what is wrong and about how fast the algorithms are.
constexpr Protocol kSample{.cache = CacheState::cold, .contenders = 0};

/// The algorithm that a config of the model names; nothing for suggestions and other providers' kernels.
std::optional<CublasLtConfig> named_algorithm(const KernelConfig& config) {
  const KernelConfig member = member_config(config);
  if (member.space != &cublaslt_gemm_space) return std::nullopt;
  const CublasLtConfig c = CublasLtConfig::from(member);
  return c.suggestion > 0 ? std::nullopt : std::optional(c);
}

/// The config in the space of the model.
KernelConfig in_space(const CublasLtConfig& c, const ConfigSpace& space) {
  const KernelConfig member = c.kernel_config();
  return &space == member.space ? member : joint_config(space, member);
}

/// Problems of a signature: the special ones, then drawn ones.
std::vector<Problem> problems_of(const Signature& signature) {
  std::vector<Problem> problems;
  const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    Problem p = make_gemm(m, n, k, signature.dtype_a, signature.layout);
    for_each_field<Signature>([&](const auto& field) {
      if (field.name != "op") p.set(field.name, static_cast<std::int64_t>(signature.*field.member));
    });
    if (is_valid(p) && signature_of(p) == signature) problems.push_back(p);
  };
  for (const auto& [m, n, k] : kSpecial) add(m, n, k);
  for (const auto& source : operation(Op::gemm).tuning_problems({.op = Op::gemm,
                            .dtype = signature.dtype_a,
                            .layouts = {signature.layout},
                            .max_gflop = kAskedGflop,
                            .max_bytes = kAskedBytes,
                            .count = kAsked})) {
    for (const Problem& drawn : source) {
      const ImplicitGemm p = product_of(drawn);
      add(p.m, p.n, p.k);
    }
  }
  return problems;
}

/// A family of the model with what the library is asked about.
struct AskedFamily {
  const Family* family;
  std::vector<MatmulShape> shapes;
};

/// Finds the model's algorithms in the installed library.
class Matcher {
 public:
  Matcher(Module& module, const std::vector<AskedFamily>& families, std::int32_t release)
      : module_(module), families_(families), release_(release) {
    std::set<std::int32_t> ids;
    for (const AskedFamily& one : families_) {
      std::int32_t found[256];
      std::int32_t count = 0;
      if (module_.algorithm_ids(one.shapes.front(), found, 256, &count) == CallStatus::done)
        ids.insert(found, found + count);
    }
    ids_.assign(ids.begin(), ids.end());
  }

  /// The new number of each algorithm of the model. A number takes votes: configs of the old algorithm that
  /// the library accepts under it. The pairs with most votes come first, of equal ones those of the same
  /// number; no new number stands for two algorithms.
  std::map<std::int32_t, std::int32_t> numbers() {
    std::map<std::int32_t, std::vector<std::pair<const AskedFamily*, CublasLtConfig>>> configs;
    for (const AskedFamily& one : families_) {
      for (std::size_t i = 0; i < one.family->configs.size(); ++i) {
        if (const auto c = named_algorithm(one.family->configs[i]))
          configs[c->algorithm].emplace_back(&one, *c);
      }
    }
    struct Pair {
      std::size_t votes;  ///< of all configs, estimated from those that were tried
      bool same;
      std::int32_t old, now;
    };
    std::vector<Pair> pairs;
    for (const auto& [old, of_it] : configs) {
      const std::size_t step = std::max<std::size_t>(1, of_it.size() / kVoters);
      for (const std::int32_t id : ids_) {
        std::size_t votes = 0;
        for (std::size_t i = 0; i < of_it.size(); i += step) {
          const auto& [family, config] = of_it[i];
          votes += accepts(*family, renamed(config, id), kVoted);
        }
        if (votes > 0) pairs.push_back({votes * step, id == old, old, id});
      }
    }
    std::ranges::stable_sort(pairs, std::ranges::greater(),
                             [](const Pair& pair) { return std::pair(pair.votes, pair.same); });
    std::map<std::int32_t, std::int32_t> numbers;
    std::set<std::int32_t> taken;
    for (const Pair& pair : pairs) {
      if (numbers.contains(pair.old) || taken.contains(pair.now)) continue;
      numbers[pair.old] = pair.now;
      taken.insert(pair.now);
    }
    return numbers;
  }

  /// Whether the library takes the algorithm for one of the first problems.
  bool accepts(const AskedFamily& family, const CublasLtConfig& config, std::size_t problems) {
    return std::ranges::any_of(std::span(family.shapes).first(std::min(problems, family.shapes.size())),
                               [&](const MatmulShape& shape) { return takes(module_, shape, config); });
  }

  CublasLtConfig renamed(CublasLtConfig config, std::int32_t id) const {
    config.version = release_;
    config.algorithm = id;
    return config;
  }

 private:
  Module& module_;
  const std::vector<AskedFamily>& families_;
  std::int32_t release_;
  std::vector<std::int32_t> ids_;
};

/// The new config of each old one; per signature, because a library may take a config for one type only.
using Renaming = std::unordered_map<KernelConfig, KernelConfig>;

/// A few values, by signature.
template <class T>
class BySignature {
 public:
  T& operator[](const Signature& signature) {
    for (auto& [of, value] : values_) {
      if (of == signature) return value;
    }
    return values_.emplace_back(signature, T()).second;
  }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<std::pair<Signature, T>> values_;
};

/// Removes from the shortlist the outputs of configs that no family has any more, and renames the others.
void rename_shortlist(ModelData& data, const Renaming& renaming) {
  if (!data.shortlist) return;
  std::unordered_set<KernelConfig> known;
  for (const Family& family : data.families) {
    for (std::size_t i = 0; i < family.configs.size(); ++i) known.insert(family.configs[i]);
  }
  Shortlist& list = *data.shortlist;
  Shortlist::Layer& last = list.layers.back();
  Shortlist::Layer kept{.inputs = last.inputs, .outputs = 0, .weights = {}, .bias = {}, .factor = {}};
  std::vector<KernelConfig> configs;
  for (std::size_t i = 0; i < list.configs.size(); ++i) {
    const auto renamed = renaming.find(list.configs[i]);
    const KernelConfig config = renamed == renaming.end() ? list.configs[i] : renamed->second;
    if (!known.contains(config)) continue;
    configs.push_back(config);
    const auto row = last.weights.begin() + static_cast<std::ptrdiff_t>(i * last.inputs);
    kept.weights.insert(kept.weights.end(), row, row + last.inputs);
    kept.bias.push_back(last.bias[i]);
    kept.factor.push_back(last.factor[i]);
    ++kept.outputs;
  }
  list.configs = std::move(configs);
  last = std::move(kept);
}

/// A family of the kept configs. Where numbers changed, its rules read the number that the traits keep.
Family renamed_family(const Family& old, const Renaming& renaming, bool numbers_changed) {
  Family fresh{.provider = old.provider,
               .signature = old.signature,
               .device = old.device,
               .rules = old.rules,
               .configs = ConfigTable(old.configs.space()),
               .traits = {},
               .applicability = old.applicability};
  for (std::size_t i = 0; i < old.configs.size(); ++i) {
    const KernelConfig& config = old.configs[i];
    const auto renamed = renaming.find(config);
    if (named_algorithm(config) && renamed == renaming.end()) continue;
    if (i == old.default_config) fresh.default_config = fresh.configs.size();
    fresh.configs.push_back(renamed == renaming.end() ? config : renamed->second);
    fresh.traits.push_back(old.traits[i]);
    if (!old.setup_us.empty()) fresh.setup_us.push_back(old.setup_us[i]);
  }
  if (!numbers_changed) return fresh;
  constexpr std::string_view kNumber = "c.algorithm", kKept = "if(c.algorithm == 0, 0, t.algorithm)";
  for (Rule& rule : fresh.applicability) {
    if (rule.admits.find(kKept) != std::string::npos) continue;
    for (std::size_t at = 0; (at = rule.admits.find(kNumber, at)) != std::string::npos; at += kKept.size())
      rule.admits.replace(at, kNumber.size(), kKept);
  }
  return fresh;
}

SweepPlan sample_plan(const std::vector<Family>& families,
                      const std::vector<std::vector<Problem>>& problems) {
  Backend& gpu = cuda_backend();
  SweepPlan plan;
  plan.provider = cublaslt_gemm_space.provider;
  plan.backend = gpu.name();
  plan.rules = "refreshed";
  plan.device = gpu.device();
  plan.protocol = kSample;
  plan.protocol.slack_us = 0;
  plan.provenance = host_provenance();
  plan.provenance.merge(gpu.versions());
  std::unordered_map<KernelConfig, std::uint32_t> known;
  for (std::size_t f = 0; f < families.size(); ++f) {
    const Family& family = families[f];
    const ApplicabilityRules rules(family.applicability, family.configs, family.traits, family.device);
    ApplicabilityRules::Scratch scratch;
    std::vector<std::uint8_t> applicable(family.configs.size());
    for (const Problem& problem : problems[f]) {
      applicable.assign(applicable.size(), 1);
      rules.evaluate(problem, applicable, scratch);
      std::vector<std::uint32_t> candidates;
      for (std::size_t i = 0; i < applicable.size(); ++i) {
        const auto named = named_algorithm(family.configs[i]);
        if (!applicable[i] || !named) continue;
        const auto [at, added] =
            known.emplace(named->kernel_config(), static_cast<std::uint32_t>(plan.configs.size()));
        if (added) plan.configs.push_back(named->kernel_config());
        candidates.push_back(at->second);
      }
      if (candidates.empty()) continue;
      std::ranges::sort(candidates);
      plan.problems.push_back(problem);
      plan.candidates.push_back(std::move(candidates));
    }
  }
  return plan;
}

/// The releases that the model's algorithms are of.
std::set<std::int32_t> releases_of(const ModelData& data) {
  std::set<std::int32_t> releases;
  for (const Family& family : data.families) {
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      if (const auto c = named_algorithm(family.configs[i])) releases.insert(c->version);
    }
  }
  return releases;
}

std::int32_t checked_release(const fs::path& model, const ModelData& data, std::int32_t here) {
  const std::string& provider = data.families.front().provider;
  const auto releases = releases_of(data);
  if (releases.empty())
    fail(Errc::invalid_argument, "--refresh {}: it names no algorithm of cuBLASLt (provider {})",
         model.string(), provider);
  if (releases.size() > 1)
    fail(Errc::invalid_argument, "--refresh {}: it names algorithms of {} releases of cuBLASLt",
         model.string(), releases.size());
  if (*releases.begin() == here)
    fail(Errc::invalid_argument,
         "--refresh {}: its algorithms are of cuBLASLt {}, which is installed: nothing is to be done",
         model.string(), here);
  return *releases.begin();
}

/// The recorded problems that are left, with new names.
std::vector<ReferenceProblem> renamed_references(const std::vector<ReferenceProblem>& old,
                                                 BySignature<Renaming>& renamings) {
  std::vector<ReferenceProblem> references;
  for (ReferenceProblem one : old) {
    const Renaming& renaming = renamings[signature_of(one.problem)];
    std::vector<ReferenceTime> times;
    std::optional<std::size_t> chosen;
    for (std::size_t i = 0; i < one.times.size(); ++i) {
      ReferenceTime time = one.times[i];
      if (named_algorithm(time.config)) {
        if (!renaming.contains(time.config)) continue;
        time.config = renaming.at(time.config);
      }
      if (i == one.chosen) chosen = times.size();
      times.push_back(time);
    }
    if (!chosen) continue;
    one.times = std::move(times);
    one.chosen = *chosen;
    references.push_back(std::move(one));
  }
  return references;
}

}  // namespace

RefreshedModel refresh_model(const fs::path& path, const MeasurePlan& measure) {
  const Model model = Model::load(path);
  Backend& gpu = cuda_backend();
  RefreshedModel fresh{.data = model.data()};
  fresh.to = std::stoi(gpu.versions().at("cublaslt_version"));
  fresh.from = checked_release(path, model.data(), fresh.to);
  std::vector<ReferenceProblem> recorded;
  if (fs::exists(path / kReferenceTimesFile))
    recorded = read_reference_times(path, provider(model.provider()));

  std::vector<std::vector<Problem>> problems;
  std::vector<AskedFamily> asked;
  for (const Family& family : model.data().families) {
    problems.push_back(problems_of(family.signature));
    AskedFamily& one = asked.emplace_back(AskedFamily{&family, {}});
    for (const Problem& problem : problems.back()) one.shapes.push_back(shape_of(problem.gemm()));
    const std::size_t run = kSpecial.size() + (recorded.empty() ? kRunUnrecorded : 0);
    problems.back().resize(std::min(problems.back().size(), run));
    for (const ReferenceProblem& reference : recorded) {
      if (signature_of(reference.problem) == family.signature) problems.back().push_back(reference.problem);
    }
  }
  Matcher matcher(open_module(), asked, fresh.to);
  fresh.algorithms = matcher.numbers();
  const bool changed =
      std::ranges::any_of(fresh.algorithms, [](const auto& pair) { return pair.first != pair.second; });

  BySignature<Renaming> renamings;
  std::vector<Family> families;
  for (const AskedFamily& one : asked) {
    RefreshedFamily& report =
        fresh.families.emplace_back(RefreshedFamily{.signature = one.family->signature});
    Renaming& renaming = renamings[one.family->signature];
    for (std::size_t i = 0; i < one.family->configs.size(); ++i) {
      const KernelConfig& config = one.family->configs[i];
      const auto named = named_algorithm(config);
      if (!named) continue;
      ++report.configs;
      const auto id = fresh.algorithms.find(named->algorithm);
      if (id != fresh.algorithms.end()) {
        const CublasLtConfig now = matcher.renamed(*named, id->second);
        if (matcher.accepts(one, now, one.shapes.size())) {
          renaming.emplace(config, in_space(now, *config.space));
          continue;
        }
      }
      ++report.unmatched;
    }
    families.push_back(renamed_family(*one.family, renaming, changed));
  }

  const SweepPlan plan = sample_plan(families, problems);
  if (plan.problems.empty())
    fail(Errc::unsupported, "--refresh {}: cuBLASLt {} takes none of its algorithms", path.string(),
         fresh.to);
  const MeasurementTable table = measure(plan);
  fresh.sampled = table.rows.size();
  BySignature<std::unordered_set<KernelConfig>> wrong;
  std::unordered_map<Problem, std::unordered_map<KernelConfig, double>> times;
  for (const MeasurementTable::Row& row : table.rows) {
    const Problem& problem = table.problems[row.problem];
    const KernelConfig& config = table.configs[row.config];
    const Status status = row.measured.status;
    if (status == Status::wrong || status == Status::crashed || status == Status::timeout)
      wrong[signature_of(problem)].insert(config);
    if (status == Status::ok) times[problem][config] = row.measured.time_us;
  }
  for (std::size_t f = 0; f < asked.size(); ++f) {
    const Family& old = *asked[f].family;
    Renaming& renaming = renamings[old.signature];
    const auto& failed = wrong[old.signature];
    fresh.families[f].wrong = std::erase_if(renaming, [&](const auto& pair) {
      return failed.contains(named_algorithm(pair.second)->kernel_config());
    });
    fresh.families[f].matched = renaming.size();
    for (std::size_t i = 0; i < old.configs.size(); ++i) {
      if (named_algorithm(old.configs[i]) && !renaming.contains(old.configs[i]))
        fresh.left_out.push_back(old.name(i));
    }
    fresh.data.families[f] = renamed_family(old, renaming, changed);
  }
  Renaming all;
  for (const auto& [signature, renaming] : renamings) all.insert(renaming.begin(), renaming.end());
  rename_shortlist(fresh.data, all);

  fresh.references = renamed_references(recorded, renamings);
  double sum = 0;
  for (const ReferenceProblem& one : fresh.references) {
    for (const ReferenceTime& time : one.times) {
      const auto named = named_algorithm(time.config);
      if (!named || !times[one.problem].contains(named->kernel_config())) continue;
      sum += std::log(times[one.problem].at(named->kernel_config()) / time.time_us);
      ++fresh.pairs;
    }
  }
  fresh.time_ratio = fresh.pairs > 0 ? std::exp(sum / static_cast<double>(fresh.pairs)) : NAN;
  return fresh;
}

void write_refreshed(const fs::path& model, const fs::path& out, const RefreshedModel& fresh) {
  if (fs::exists(out) && (!fs::is_directory(out) || !fs::is_empty(out)))
    fail(Errc::invalid_argument, "--out {}: it exists; name a new folder", out.string());
  const Model checked(fresh.data);
  try {
    make_own_folders(out);
    if (fs::is_directory(model)) {
      for (const auto& entry : fs::directory_iterator(model)) {
        if (entry.is_regular_file() && entry.path().filename() != kReferenceTimesFile)
          fs::copy(entry.path(), out / entry.path().filename());
      }
    }
  } catch (const fs::filesystem_error& error) {
    fail(Errc::device_failure, "{}", error.what());
  }
  if (!fresh.references.empty()) write_reference_times(out, fresh.references);
  write_file_atomically(out / "model.ksf", checked.bytes(), kOwnersMode);
}

}  // namespace kscout
