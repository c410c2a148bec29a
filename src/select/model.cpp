#include "select/model.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/fork_mutex.h"
#include "features/schema.h"
#include "op/forms.h"
#include "op/operation.h"

namespace kscout {

namespace {

constexpr double kNotApplicable = -std::numeric_limits<double>::infinity();

/// Applies put_behind() of forest/shortlist.h to a ranking whose first `kept` configs are the shortlist.
void put_behind(std::span<Ranked> ranking, std::size_t kept) {
  if (kept == 0 || kept == ranking.size()) return;
  const double behind = std::nextafter(ranking[kept - 1].score, kNotApplicable), most = ranking[kept].score;
  if (!(most > behind)) return;
  for (Ranked& ranked : ranking.subspan(kept)) ranked.score = behind + (ranked.score - most);
}

/// Orders a ranking by the time of one of `calls` calls, with its share of the set-up; the first `kept`
/// configs stay before the others.
void charge_setup(std::span<Ranked> ranking, std::size_t kept, std::int64_t calls) {
  for (Ranked& ranked : ranking) ranked.score = -ranked.cost_us(static_cast<double>(calls));
  const auto cheaper = [](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : a.config < b.config;
  };
  std::ranges::sort(ranking.first(kept), cheaper);
  std::ranges::sort(ranking.subspan(kept), cheaper);
  put_behind(ranking, kept);
}

}  // namespace

/// A model's data and its compiled parts.
struct Model::Compiled {
  explicit Compiled(ModelData of) : data(std::move(of)) {
    for (std::size_t i = 0; i < data.families.size(); ++i) add(data.families[i], i);
    add_twins();
    fast = std::vector<std::atomic<const FamilyForest*>>(all.size() * data.targets.size());
    by_rows = std::vector<std::atomic<const ExactForest*>>(data.targets.size());
    ranks_listed = data.schema->reads("t.listed");
  }
  /// Adds the families' configs for signatures that they answer for: the nearest of each family first.
  void add_twins() {
    std::vector<std::vector<Signature>> others;
    std::size_t most = 0;
    for (const Family& family : data.families) {
      others.push_back(operation(family.signature.op).answers_for(family.signature, family.device));
      most = std::max(most, others.back().size());
    }
    for (std::size_t rank = 0; rank < most; ++rank) {
      for (std::size_t i = 0; i < others.size(); ++i) {
        if (rank >= others[i].size()) continue;
        const Signature& signature = others[i][rank];
        if (std::ranges::find(all, signature, &Family::signature) != all.end()) continue;
        auto twin = std::make_unique<Family>(data.families[i]);
        twin->signature = signature;
        add(*twin, i);
        twins.push_back(std::move(twin));
      }
    }
  }
  void add(const Family& family, std::size_t trained_as) {
    all.push_back(&family);
    trained.push_back(trained_as);
    families.push_back(std::make_unique<CompiledFamily>(family));
    if (data.shortlist) outputs.push_back(outputs_of(*data.shortlist, family.configs));
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    for (const auto& forest : fast) delete forest.load();
    for (const auto& forest : by_rows) delete forest.load();
  }

  std::size_t position(const Family& family) const noexcept {
    return static_cast<std::size_t>(std::ranges::find(all, &family) - all.begin());
  }

  /// The forest of a target over a family; created at first use.
  const FamilyForest& forest_over(const Family& family, const ModelTarget& target) const {
    return made_once(fast[position(family) * data.targets.size() + column(target)], [&] {
      return FamilyForest(target.forest, data.best_tflops, data.best_features, *data.schema, family,
                          family.configs.size() > kKeptByFirstTrees ? data.first_trees : 0);
    });
  }

  /// The forest of a target over any rows of features; created at first use.
  const ExactForest& forest_over_rows(const ModelTarget& target) const {
    return made_once(by_rows[column(target)], [&] {
      return ExactForest(target.forest, std::vector<ExactForest::Feature>(target.forest.feature_count));
    });
  }

  ModelData data;
  std::vector<std::unique_ptr<const Family>> twins;
  std::vector<const Family*> all;    ///< data.families, then the twins
  std::vector<std::size_t> trained;  ///< by family: its place, or its twin's, in data.families
  std::vector<std::unique_ptr<const CompiledFamily>> families;   ///< in the order of `all`
  std::vector<FamilyOutputs> outputs;                            ///< outputs of the shortlist, by family
  bool ranks_listed = false;                                     ///< Model::ranks_listed()
  mutable std::vector<std::atomic<const FamilyForest*>> fast;    ///< by family and target
  mutable std::vector<std::atomic<const ExactForest*>> by_rows;  ///< by target

 private:
  std::size_t column(const ModelTarget& target) const noexcept {
    return static_cast<std::size_t>(&target - data.targets.data());
  }
  template <class T, class Make>
  const T& made_once(std::atomic<const T*>& place, Make make) const {
    if (const T* const made = place.load(std::memory_order_acquire)) return *made;
    const std::lock_guard lock(making);
    if (const T* const made = place.load(std::memory_order_acquire)) return *made;
    std::unique_ptr<const T> made(new T(make()));
    place.store(made.get(), std::memory_order_release);
    return *made.release();
  }
  mutable ForkMutex making{ForkLevel::model};
};

Model::Model(ModelData data) {
  check(data);
  compiled_ = std::make_shared<Compiled>(std::move(data));
}

const ModelData& Model::data() const noexcept { return compiled_->data; }

bool Model::has(Target target) const noexcept {
  return std::ranges::find(data().targets, target, &ModelTarget::target) != data().targets.end();
}

const ModelTarget& Model::forest_of(Target target) const {
  const auto found = std::ranges::find(data().targets, target, &ModelTarget::target);
  if (found != data().targets.end()) return *found;
  std::string names;
  for (const auto& has : data().targets) names += (names.empty() ? "" : ", ") + std::string(word(has.target));
  fail(Errc::invalid_argument, "the model was not trained for {}; it has {}", word(target), names);
}

const CompiledFamily* Model::compiled(const Signature& signature) const noexcept {
  const auto family_if = [&](bool accumulate) -> const CompiledFamily* {
    Signature asked = signature;
    asked.accumulate = accumulate;
    for (const auto& family : compiled_->families) {
      if (family->family().signature == asked) return family.get();
    }
    return nullptr;
  };
  if (const CompiledFamily* const exact = family_if(signature.accumulate)) return exact;
  if (const CompiledFamily* const other = family_if(!signature.accumulate)) return other;
  Signature answering = signature;
  answering.epilogue = answering_epilogue(signature.epilogue);
  return answering == signature ? nullptr : compiled(answering);
}

Epilogue Model::answering_epilogue(Epilogue epilogue) const noexcept {
  if (provider() == "native") return Epilogue::none;
  if (device().vendor != "NVIDIA") return epilogue;
  if (epilogue == Epilogue::relu) return Epilogue::bias_relu;
  return epilogue == Epilogue::gelu ? Epilogue::bias_gelu : epilogue;
}

std::size_t Model::position(const Family& family) const noexcept { return compiled_->position(family); }

std::span<const Family* const> Model::families() const noexcept { return compiled_->all; }

bool Model::other_kernels(const Family& family, ProblemRef problem) const {
  if (position(family) < data().families.size()) return false;
  bool unaligned = false;
  operation(problem.kind()).for_each_aligned_form(problem, [&](const AlignedForm&) { unaligned = true; });
  return unaligned;
}

const Signature& Model::trained_signature(const Family& family) const noexcept {
  return data().families[trained(family)].signature;
}

std::size_t Model::trained(const Family& family) const noexcept {
  return compiled_->trained[position(family)];
}

const Family* Model::family(const Signature& signature) const noexcept {
  const CompiledFamily* const found = compiled(signature);
  return found ? &found->family() : nullptr;
}

void Model::score_rows(const ConfigTable& configs, std::span<const Traits> traits, ProblemRef problem,
                       const ModelTarget& forest, SelectScratch& scratch) const {
  const std::size_t features = forest.forest.feature_count, rows = configs.size();
  std::vector<double> matrix(features * rows);
  scratch.scores.resize(rows);
  data().schema->evaluate(problem, device(), configs, traits, matrix);
  constexpr std::size_t kBlock = ExactForest::block;
  const ExactForest& fast = compiled_->forest_over_rows(forest);
  std::vector<double> columns(features * kBlock);
  std::vector<const double*> values(features);
  for (std::size_t f = 0; f < features; ++f) values[f] = &columns[f * kBlock];
  std::array<std::uint32_t, kBlock> numbers{};  // no feature has fixed values
  for (std::size_t first = 0; first < rows; first += kBlock) {
    const std::size_t count = std::min(kBlock, rows - first);
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t f = 0; f < features; ++f)
        columns[f * kBlock + row] = matrix[(first + row) * features + f];
    }
    fast.scores(values, std::span(numbers).first(count), std::span(scratch.scores).subspan(first, count),
                scratch.forest.ranks);
  }
  if (forest.target == Target::latency) {
    for (double& score : scratch.scores) score = -score;
  }
}

bool Model::score_some(const CompiledFamily& family, ProblemRef problem, const ModelTarget& forest,
                       std::span<const std::uint32_t> configs, SelectScratch& scratch) const {
  const FamilyForest& fast = compiled_->forest_over(family.family(), forest);
  scratch.scores.resize(configs.size());
  if (!fast.scores(problem, configs, scratch.scores, scratch.forest)) return false;
  if (forest.target == Target::latency) {
    for (double& score : scratch.scores) score = -score;
  }
  return true;
}

bool Model::ranks_listed() const noexcept { return compiled_->ranks_listed; }

void Model::replace_suggestions(const CompiledFamily& family, ProblemRef problem, const ModelTarget& forest,
                                std::span<const KernelConfig> listed, SelectScratch& scratch) const {
  const Family& of = family.family();
  std::vector<double> scores;
  std::vector<std::uint32_t> configs;
  std::vector<Traits> traits;
  for (std::size_t i = 0; i < scratch.scores.size(); ++i) {
    if (of.traits[scratch.able[i]].suggestion > 0) continue;
    configs.push_back(scratch.able[i]);
    scores.push_back(scratch.scores[i]);
    traits.push_back(of.traits[scratch.able[i]]);
  }
  ConfigTable table(of.configs.space());
  scratch.first_suggestion.reset();
  for (const KernelConfig& config : listed) {
    configs.push_back(static_cast<std::uint32_t>(family.size() + table.size()));
    table.push_back(config);
    traits.push_back(kscout::provider(of.provider).traits(of.signature, config, of.device));
    if (traits.back().listed == 1) scratch.first_suggestion = configs.back();
  }
  score_rows(table, std::span(traits).last(listed.size()), problem, forest, scratch);
  scores.insert(scores.end(), scratch.scores.begin(), scratch.scores.end());
  leave_unknown_kinds(traits, scores);
  scratch.able.clear();
  scratch.scores.clear();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] == kNotApplicable) continue;
    scratch.able.push_back(configs[i]);
    scratch.scores.push_back(scores[i]);
  }
}

void Model::leave_unknown_kinds(std::span<const Traits> traits, std::span<double> scores) const {
  const auto& known = data().listed_kinds;
  if (known.empty()) return;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < traits.size(); ++i) {
    const bool of_library = traits[i].algorithm < Traits::first_compiled_algorithm;  // false where unnamed
    if (!of_library || std::ranges::find(known, kind_of(traits[i])) != known.end()) continue;
    scores[i] = kNotApplicable;
    if (traits[i].listed == 1) first = i;
  }
  if (first) scores[*first] = std::nextafter(std::ranges::max(scores), -kNotApplicable);
}

double Model::base_log_tflops(ProblemRef problem, Target target) const {
  if (target != Target::relative && target != Target::rank) return 0;
  const ModelData& of = data();
  std::vector<double> all(of.schema->size()), row;
  of.schema->evaluate_problem(problem, device(), all);
  for (const std::uint32_t feature : of.best_features) row.push_back(all[feature]);
  return of.best_tflops.predict(row);
}

std::size_t Model::shortlist_by_first_trees(const CompiledFamily& family, ProblemRef problem,
                                            const ModelTarget& forest, std::span<const std::uint8_t> allowed,
                                            SelectScratch& scratch) const {
  family.applicable(problem, allowed, scratch);
  scratch.kept = scratch.applicable;
  const auto able = marked(scratch.applicable, scratch.able);
  if (data().first_trees == 0 || able.size() <= kKeptByFirstTrees) return able.size();
  scratch.scores.resize(able.size());
  const FamilyForest& fast = compiled_->forest_over(family.family(), forest);
  if (!fast.first_scores(problem, able, scratch.scores, scratch.forest)) return able.size();
  if (forest.target == Target::latency) {
    for (double& score : scratch.scores) score = -score;
  }
  scratch.charged.resize(kKeptByFirstTrees);
  keep_best(able, scratch.scores, scratch.charged);
  std::ranges::fill(scratch.kept, std::uint8_t{0});
  for (const Ranked& ranked : scratch.charged) scratch.kept[ranked.config] = 1;
  return kKeptByFirstTrees;
}

std::size_t Model::shortlist_family(const CompiledFamily& family, ProblemRef problem,
                                    const ModelTarget& forest, std::span<const std::uint8_t> allowed,
                                    SelectScratch& scratch) const {
  if (!data().shortlist || family.size() <= kNoShortlistFamily)
    return shortlist_by_first_trees(family, problem, forest, allowed, scratch);
  const std::span<std::int16_t> ratings =
      rate(*data().shortlist, compiled_->outputs[position(family.family())], problem, device().cores,
           scratch.shortlist);
  scratch.kept.resize(family.size());
  scratch.applicable.assign(family.size(), 1);
  std::ranges::copy(allowed, scratch.applicable.begin());
  // Rules are evaluated for twice as many configs as are kept, and for all configs only when too few of these
  // can take the problem.
  constexpr std::size_t kAsked = 2 * kShortlisted;
  const std::size_t asked = keep_top(ratings, scratch.applicable, family.always(), kAsked, scratch.kept);
  const auto likely = marked(scratch.kept, scratch.able);
  const std::size_t able = family.applicable_among(problem, likely, scratch);
  if (able < kShortlisted && asked == kAsked) {
    family.applicable(problem, allowed, scratch);
    return keep_top(ratings, scratch.applicable, family.always(), kShortlisted, scratch.kept);
  }
  // Applies keep_top() to `likely` only.
  std::array<std::int16_t, kAsked> rating;
  std::array<std::uint8_t, kAsked> always, kept;
  for (std::size_t i = 0; i < likely.size(); ++i) {
    rating[i] = ratings[likely[i]];
    always[i] = family.always()[likely[i]];
  }
  const std::size_t count = keep_top(std::span(rating).first(likely.size()), scratch.answers, always,
                                     kShortlisted, std::span(kept).first(likely.size()));
  for (std::size_t i = 0; i < likely.size(); ++i) scratch.kept[likely[i]] = kept[i];
  return count;
}

std::size_t Model::rank(const CompiledFamily& family, ProblemRef problem, Target target,
                        std::span<const std::uint8_t> allowed, std::span<Ranked> best, SelectScratch& scratch,
                        std::int64_t calls, std::span<const KernelConfig> listed) const {
  const ModelTarget& forest = forest_of(target);
  const FamilyForest& fast = compiled_->forest_over(family.family(), forest);
  const std::span<const double> setup = setup_times(family.family(), problem);
  const bool charged = calls > 0 && !setup.empty() && flop_count(problem) > 0;
  std::size_t kept = shortlist_family(family, problem, forest, allowed, scratch);
  // Set-up can put any config of the shortlist first.
  std::span<Ranked> room = best;
  if (charged && kept + listed.size() > best.size()) {
    scratch.charged.resize(kept + listed.size());
    room = scratch.charged;
  }
  std::size_t count = 0;
  double suggestion_score = std::numeric_limits<double>::quiet_NaN();
  scratch.first_suggestion = family.first_suggestion();
  /// Appends the best of the configs that `from` marks and of `also`; returns the number of both.
  const auto append = [&](std::span<const std::uint8_t> from, std::span<const KernelConfig> also) {
    std::span<const std::uint32_t> configs = marked(from, scratch.able);
    // False when the schema cannot describe the problem.
    if (!score_some(family, problem, forest, configs, scratch)) return std::size_t{0};
    if (!also.empty()) {
      replace_suggestions(family, problem, forest, also, scratch);
      configs = scratch.able;
    }
    count += keep_best(configs, scratch.scores, room.subspan(count));
    const auto at = std::ranges::find(configs, scratch.first_suggestion);
    if (at != configs.end())
      suggestion_score = scratch.scores[static_cast<std::size_t>(at - configs.begin())];
    return configs.size();
  };
  kept = append(scratch.kept, listed);
  if (count == kept && count < room.size()) {
    family.applicable(problem, allowed, scratch);
    // Marks the other applicable configs.
    for (std::size_t i = 0; i < scratch.kept.size(); ++i) scratch.kept[i] ^= scratch.applicable[i];
    append(scratch.kept, {});
    put_behind(room.first(count), kept);
  }
  if (count == 0) return 0;
  const bool against_best = target == Target::relative || target == Target::rank;
  const double base = against_best ? fast.score_of_problem(scratch.forest) : 0;
  const double top = room[0].score;
  const auto tflops_of = [&](double score) {
    return std::exp(base + forest.offset + forest.slope * claimed_log_tflops(forest, score, top, problem));
  };
  scratch.suggestion_tflops = std::isnan(suggestion_score) ? suggestion_score : tflops_of(suggestion_score);
  for (Ranked& ranked : room.first(count)) {
    ranked.tflops = tflops_of(ranked.score);
    ranked.time_us = time_us_of(problem, ranked.tflops);
    if (ranked.config < setup.size()) ranked.setup_us = setup[ranked.config];
  }
  if (!charged) return count;
  charge_setup(room.first(count), std::min(kept, count), calls);
  if (room.data() == best.data()) return count;
  count = std::min(count, best.size());
  std::ranges::copy(room.first(count), best.begin());
  return count;
}

namespace {

using TopSpeeds = std::array<double, Confidence::top>;

/// ln of the first Confidence::top speeds, in memory of `room`.
std::span<const double> log_speeds(std::span<const double> tflops, TopSpeeds& room) noexcept {
  const std::size_t count = std::min(tflops.size(), room.size());
  for (std::size_t i = 0; i < count; ++i) room[i] = std::log(tflops[i]);
  return std::span(room).first(count);
}

}  // namespace

double Model::distance(const Family& family, ProblemRef problem) const noexcept {
  if (!data().region) return std::numeric_limits<double>::quiet_NaN();
  return data().region->distance(trained(family), problem);
}

double Model::confidence(const Family& family, ProblemRef problem, Target target,
                         std::span<const double> tflops) const noexcept {
  const auto& calibrated = data().confidence;
  if (!calibrated || tflops.empty() || target != default_target())
    return std::numeric_limits<double>::quiet_NaN();
  TopSpeeds room{};
  const double octaves = data().region ? distance(family, problem) : 0;
  return calibrated->probability(trained(family), problem, log_speeds(tflops, room), octaves);
}

bool Model::guarded(const Family& family, ProblemRef problem, Target target, double lead) const {
  if (!std::isfinite(lead) || target != default_target()) return false;
  const auto& guard = data().guard;
  return other_kernels(family, problem) || (guard && guard->applies(distance(family, problem), lead));
}

void Model::score(ProblemRef problem, std::span<double> scores) const {
  score(problem, default_target(), scores);
}

void Model::score(ProblemRef problem, Target target, std::span<double> scores) const {
  exact_scores(problem, target, scores);
  std::vector<std::uint8_t> applicable;
  for (const double score : scores) applicable.push_back(score != kNotApplicable ? 1 : 0);
  kscout::put_behind(scores, applicable, candidates(problem, target));
}

void Model::exact_scores(ProblemRef problem, Target target, std::span<double> scores) const {
  const CompiledFamily* const of = compiled(signature_of(problem));
  if (!of) fail(Errc::unsupported, "the model was not trained for problems like {}", print(problem));
  if (scores.size() != of->size()) {
    fail(Errc::invalid_argument, "{} scores for {} configs", scores.size(), of->size());
  }
  SelectScratch scratch;
  const auto able = of->able(problem, {}, scratch);
  if (!score_some(*of, problem, forest_of(target), able, scratch)) {
    const Family& family = of->family();  // throws the reason
    score_rows(family.configs, family.traits, problem, forest_of(target), scratch);
  }
  std::ranges::fill(scores, kNotApplicable);
  for (std::size_t i = 0; i < able.size(); ++i) scores[able[i]] = scratch.scores[i];
}

std::vector<std::uint8_t> Model::candidates(ProblemRef problem) const {
  return candidates(problem, default_target());
}

std::vector<std::uint8_t> Model::candidates(ProblemRef problem, Target target) const {
  const CompiledFamily* const of = compiled(signature_of(problem));
  if (!of) fail(Errc::unsupported, "the model was not trained for problems like {}", print(problem));
  SelectScratch scratch;
  shortlist_family(*of, problem, forest_of(target), {}, scratch);
  return std::move(scratch.kept);
}

std::vector<double> Model::score_configs(ProblemRef problem, const ConfigTable& configs) const {
  return score_configs(problem, configs, default_target());
}

std::vector<double> Model::score_configs(ProblemRef problem, const ConfigTable& configs,
                                         Target target) const {
  if (configs.empty()) return {};
  const Provider& of = kscout::provider(provider());
  const Signature signature = signature_of(problem);
  std::vector<Traits> traits;
  traits.reserve(configs.size());
  for (std::size_t i = 0; i < configs.size(); ++i)
    traits.push_back(of.traits(signature, configs[i], device()));
  SelectScratch scratch;
  score_rows(configs, traits, problem, forest_of(target), scratch);
  return std::move(scratch.scores);
}

std::vector<double> Model::predicted_tflops(ProblemRef problem, std::span<const double> scores) const {
  return predicted_tflops(problem, default_target(), scores);
}

std::vector<double> Model::predicted_tflops(ProblemRef problem, Target target,
                                            std::span<const double> scores) const {
  const ModelTarget& forest = forest_of(target);
  const double base = base_log_tflops(problem, target);
  const double top = scores.empty() ? kNotApplicable : *std::ranges::max_element(scores);
  std::vector<double> tflops;
  tflops.reserve(scores.size());
  for (const double score : scores) {
    if (score == kNotApplicable) {
      tflops.push_back(0);
      continue;
    }
    const double claim = claimed_log_tflops(forest, score, top, problem);
    tflops.push_back(std::exp(base + forest.offset + forest.slope * claim));
  }
  return tflops;
}

namespace claim_text {
#include "select/claim-inl.h"
}

double claimed_log_tflops(const ModelTarget& target, double score, double top_score,
                          ProblemRef problem) noexcept {
  return claim_text::claimed_log_tflops(static_cast<int>(target.target), static_cast<int>(target.scale),
                                        score, top_score, flop_count(problem), min_bytes(problem));
}

std::span<const double> setup_times(const Family& family, ProblemRef problem) noexcept {
  const bool packs = operation(problem.kind()).is_prepacked(problem);
  if (family.device.kind == DeviceKind::cpu && !packs) return {};
  return family.setup_us;
}

double time_us_of(ProblemRef problem, double tflops) noexcept {
  const double flops = flop_count(problem);
  if (!(flops > 0) || !(tflops > 0)) return std::numeric_limits<double>::quiet_NaN();
  return flops / tflops * 1e-6;
}

}  // namespace kscout
