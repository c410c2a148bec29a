#include "sweep/errata.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include <kscout/device.h>
#include <kscout/provider.h>

#include "expr/expr.h"
#include "family/family_file.h"
#include "op/operation.h"

namespace kscout {
namespace {

/// The conditions to try for an operation, the more specific first: of equally good ones the first is taken.
std::vector<RunProperty> conditions_of(Op op) {
  std::vector<RunProperty> all = operation(op).run_properties();
  for (const char* const type : {"bf16", "fp16", "fp8", "tf32", "fp32"})
    all.push_back({fmt::format("s.dtype_a == '{}'", type), fmt::format("A is {}", type)});
  return all;
}

/// The axis that names a library's algorithm; nothing for spaces without one.
std::optional<std::size_t> algorithm_axis(const ConfigSpace& space) {
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    if (space.axes[i].name == "algorithm" || space.axes[i].name == "engine") return i;
  }
  return std::nullopt;
}

/// Which conditions a run meets. An unknown answer counts as not met.
std::vector<bool> met_by(const AuditedRun& run, const expr::Program& program) {
  expr::Inputs inputs(program);
  inputs.set("c", run.config);
  inputs.set("s", signature_of(run.problem));
  inputs.set("p", run.problem);
  std::vector<bool> met;
  for (const double answer : expr::values_of(program, inputs)) met.push_back(answer == answer && answer != 0);
  return met;
}

/// The runs of one algorithm.
class Cases {
 public:
  explicit Cases(const std::vector<const AuditedRun*>& runs)
      : runs_(runs), conditions_(conditions_of(runs.front()->problem.op())) {
    std::vector<expr::Formula> formulas;
    for (std::size_t i = 0; i < conditions_.size(); ++i)
      formulas.push_back({fmt::format("condition {}", i), conditions_[i].formula});
    const auto program =
        expr::Program::compile(formulas, family_scope(*runs.front()->config.space, {}, true));
    for (const AuditedRun* const run : runs) met_.push_back(met_by(*run, program));
  }

  /// Adds the best condition and its counts.
  void describe(Erratum& erratum) const {
    std::optional<std::size_t> one, two;
    std::size_t right = right_runs(one, two);
    for (std::size_t i = 0; i < conditions_.size(); ++i) improve(right, one, two, i, std::nullopt);
    for (std::size_t i = 0; i < conditions_.size(); ++i) {
      for (std::size_t j = i + 1; j < conditions_.size(); ++j) improve(right, one, two, i, j);
    }
    for (const auto& part : {one, two}) {
      if (!part) continue;
      const char* const joint = erratum.condition.empty() ? "" : " and ";
      erratum.condition += joint + conditions_[*part].formula;
      erratum.in_words += joint + conditions_[*part].in_words;
    }
    erratum.wrong = static_cast<std::size_t>(std::ranges::count(runs_, false, &AuditedRun::right));
    erratum.right = right;
    erratum.others = runs_.size() - erratum.wrong - right;
  }

 private:
  using Part = std::optional<std::size_t>;

  bool meets(std::size_t run, const Part& one, const Part& two) const {
    return (!one || met_[run][*one]) && (!two || met_[run][*two]);
  }

  /// The right runs that meet both; all runs plus one when a wrong run does not.
  std::size_t right_runs(const Part& one, const Part& two) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const bool met = meets(i, one, two);
      if (!met && !runs_[i]->right) return runs_.size() + 1;
      count += met && runs_[i]->right;
    }
    return count;
  }

  void improve(std::size_t& right, Part& one, Part& two, const Part& i, const Part& j) const {
    const std::size_t now = right_runs(i, j);
    if (now >= right) return;
    right = now, one = i, two = j;
  }

  const std::vector<const AuditedRun*>& runs_;
  std::vector<RunProperty> conditions_;
  std::vector<std::vector<bool>> met_;  ///< by run and condition
};

}  // namespace

std::vector<Erratum> errata_of(std::span<const AuditedRun> runs) {
  // By library, op, release and algorithm.
  std::map<std::tuple<std::string, Op, std::int32_t, std::int32_t>, std::vector<const AuditedRun*>> groups;
  for (const AuditedRun& run : runs) {
    const auto axis = algorithm_axis(*run.config.space);
    if (axis && run.config[*axis] != KernelConfig::unknown && run.config[*axis] != 0)
      groups[{run.library, run.problem.op(), run.config[0], run.config[*axis]}].push_back(&run);
  }
  std::vector<Erratum> errata;
  for (const auto& [key, group] : groups) {
    const AuditedRun* smallest = nullptr;
    for (const AuditedRun* const run : group) {
      if (!run->right && (!smallest || flop_count(run->problem) < flop_count(smallest->problem)))
        smallest = run;
    }
    if (!smallest) continue;
    const auto& [library, op, release, algorithm] = key;
    const auto& axes = smallest->config.space->axes;
    const std::string_view axis = axes[*algorithm_axis(*smallest->config.space)].name;
    const int number = algorithm - (axis == "engine" ? 1 : 0);  // axis engine is 0 where none is named
    Erratum erratum{.name = fmt::format("{} {} of {}, {}", axis, number, library, word(op)),
                    .library = library,
                    .algorithm = fmt::format("s.op == '{}' and c.{} == {} and c.{} == {}", word(op),
                                             axes[0].name, release, axis, algorithm),
                    .config = config_name(signature_of(smallest->problem), smallest->config),
                    .problem = print(smallest->problem)};
    Cases(group).describe(erratum);
    errata.push_back(std::move(erratum));
  }
  return errata;
}

std::string errata_toml(std::span<const Erratum> errata, const std::string& device,
                        const std::string& command) {
  std::string toml;
  for (const Erratum& one : errata) {
    toml += fmt::format(
        "[[rule]]\n"
        "name = \"{}\"\n"
        "kind = \"applicability\"\n"
        "suggested = true\n"
        "since = \"{}\"\n"
        "admits = \"not ({}{}{})\"\n"
        "because = \"{}wrong in {} of {} runs{} ({}, {}; e.g. {} by {})\"\n\n",
        one.name, one.library, one.algorithm, one.condition.empty() ? "" : " and ", one.condition,
        one.in_words.empty() ? "" : "where " + one.in_words + ": ", one.wrong, one.wrong + one.right,
        one.others > 0 ? fmt::format(", right in all {} others", one.others) : "", device, command,
        one.problem, one.config);
  }
  return toml;
}

}  // namespace kscout
