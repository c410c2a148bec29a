/// \file
/// Enumerates configs by binding one axis after the other, depth first and in pieces. A rule is evaluated as
/// soon as the axes that it reads are bound, and refused rows are not multiplied by the remaining axes. The
/// cost therefore grows with the candidates that pass the early rules, not with the product of all axes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <unordered_set>

#include "core/fail.h"
#include "family/family_file.h"
#include "family/rules.h"

namespace kscout {
namespace {

/// Rows per piece: large enough to evaluate by column, small enough to stay in a cache.
constexpr std::size_t kPieceRows = 4096;
constexpr std::size_t kMaxCandidates = std::size_t{1} << 62;
/// Larger families fit neither into a sweep nor into memory.
constexpr std::size_t kMaxConfigs = std::size_t{1} << 20;

std::int32_t whole_number(double value, const Axis& axis, const AxisValue& from, const ConfigBlock& block,
                          const FamilyRequest& request) {
  if (!(std::abs(value) < 2147483648.0) || value != std::floor(value)) {
    fail(Errc::unsupported,
         "{}: axis '{}': '{}' gives {} on device '{}'; an axis takes whole numbers below 2^31", block.where,
         axis.name, from.formula, value, request.device.name);
  }
  return static_cast<std::int32_t>(value);
}

class Enumerator {
 public:
  Enumerator(const FamilyFile& file, const FamilyRequest& request)
      : file_(file),
        request_(request),
        scope_(family_scope(*file.space, file.formulas, false)),
        rules_(membership_rules(file, request)),
        refused_(rules_.size()),
        configs_(*file.space) {
    const auto program = expr::Program::compile(formulas_of(rules_), scope_);
    for (std::size_t i = 0; i < rules_.size(); ++i) rule_axes_.push_back(program.depends(i).axes);
  }

  /// Returns the configs of a list that the rules admit.
  ConfigTable admit(const ConfigTable& list) {
    enumerate_list(list);
    return std::move(configs_);
  }

  ConfigTable run(EnumerationReport* report) {
    const RuleSet& set = file_.rule_set(request_.rules);
    if (!set.from.empty())
      enumerate_list(generated_list(set.from, file_, request_.signature, request_.device));
    for (const ConfigBlock& block : set.blocks) enumerate_block(block);
    if (report) {
      report->candidates = candidates_;
      report->refused.clear();
      for (std::size_t i = 0; i < rules_.size(); ++i)
        report->refused.push_back({rules_[i].name, refused_[i]});
      report->refused.push_back({"duplicate", duplicates_});
    }
    return std::move(configs_);
  }

 private:
  /// Binds one axis, then evaluates the rules whose axes are now all bound. The first step binds nothing.
  struct Step {
    std::uint32_t binds = 0;  ///< bits of axes
    std::size_t axis = 0;     ///< index into `values`
    const std::vector<AxisValue>* values = nullptr;
    const ConfigBlock* rows = nullptr;       ///< when set, binds the block's rows instead of values
    std::unique_ptr<BoundProgram> computed;  ///< values given by formulas, in the order of the list or rows
    std::vector<std::size_t> rules;
    std::unique_ptr<BoundProgram> asked;
    std::size_t stands_for = 1;  ///< number of candidates that one row after this step stands for

    std::size_t length() const { return values ? values->size() : rows ? rows->rows.size() : 1; }
  };

  void enumerate_block(const ConfigBlock& block) {
    block_ = &block;
    CandidateBatch start;
    start.values.resize(file_.space->axes.size());
    start.positions.resize(file_.space->axes.size());
    if (!block.when.empty() &&
        !admits(BoundProgram({{"when", block.when}}, scope_, request_).evaluate(start)[0]))
      return;
    plan(block);
    found_.clear();
    found_order_.clear();
    evaluate_rules(steps_.front(), start);
    if (start.rows > 0) descend(1, start);
    collect();
  }

  /// Filters a list that a program generated: every axis is bound, so all rules are evaluated at once.
  void enumerate_list(const ConfigTable& list) {
    steps_.clear();
    Step& all = steps_.emplace_back();
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) all.rules.push_back(rule);
    if (!rules_.empty()) all.asked = std::make_unique<BoundProgram>(formulas_of(rules_), scope_, request_);
    candidates_ += list.size();
    in_space_order_ = true;
    CandidateBatch batch;
    for (std::size_t first = 0; first < list.size(); first += kPieceRows) {
      batch.rows = std::min(kPieceRows, list.size() - first);
      batch.values.assign(file_.space->axes.size(), {});
      batch.positions.assign(file_.space->axes.size(), {});
      for (std::size_t axis = 0; axis < batch.values.size(); ++axis) {
        for (const std::int32_t value : list.column(axis).subspan(first, batch.rows))
          batch.values[axis].push_back(expr::axis_number(value));
      }
      found_.clear();
      evaluate_rules(all, batch);
      keep(batch);
      collect();
    }
  }

  // ---- the plan of a block

  void plan(const ConfigBlock& block) {
    steps_.clear();
    steps_.emplace_back();
    const std::size_t axes = file_.space->axes.size();
    std::vector<std::uint32_t> needed;
    for (const auto& values : block.values) needed.push_back(needs(values));
    std::uint32_t bound = 0;
    in_space_order_ = block.rows.empty();
    std::uint32_t in_rows = 0, rows_need = 0;
    for (const std::size_t axis : block.row_axes) in_rows |= 1u << axis;
    for (const auto& row : block.rows) rows_need |= needs(row);
    for (std::size_t left = axes - block.row_axes.size(); left > 0 || (in_rows & ~bound) != 0;) {
      if ((in_rows & ~bound) != 0 && (rows_need & ~bound) == 0) {
        add_rows(block, in_rows);
        bound |= in_rows;
        continue;
      }
      const std::size_t axis = next_axis(block, needed, bound);
      in_space_order_ = in_space_order_ && axis + 1 == steps_.size();
      bound |= 1u << axis;
      add_step(axis, block.values[axis]);
      --left;
    }
    place_rules();
    std::size_t product = 1;
    for (std::size_t i = steps_.size(); i-- > 0;) {
      steps_[i].stands_for = product;
      const std::size_t length = steps_[i].length();
      if (product > kMaxCandidates / length)
        fail(Errc::corrupt_data, "{}: more than 2^62 candidates", block.where);
      product *= length;
    }
    candidates_ += product;
  }

  /// The first unbound axis in space order, outside the block's rows, whose formulas read bound axes only.
  std::size_t next_axis(const ConfigBlock& block, std::span<const std::uint32_t> needed,
                        std::uint32_t bound) const {
    for (std::size_t axis = 0; axis < block.values.size(); ++axis) {
      if (!(bound >> axis & 1) && !block.values[axis].empty() && (needed[axis] & ~bound) == 0) return axis;
    }
    std::string names;
    for (std::size_t axis = 0; axis < block.values.size(); ++axis) {
      if (!(bound >> axis & 1))
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", file_.space->axes[axis].name);
    }
    fail(Errc::corrupt_data, "{}: the values of axes {} depend on each other", block.where, names);
  }

  std::uint32_t needs(const std::vector<AxisValue>& values) const {
    std::uint32_t axes = 0;
    for (const AxisValue& value : values) {
      if (!value.formula.empty())
        axes |= expr::Program::compile({{"value", value.formula}}, scope_).depends(0).axes;
    }
    return axes;
  }

  void add_step(std::size_t axis, const std::vector<AxisValue>& values) {
    Step& step = steps_.emplace_back();
    step.binds = 1u << axis;
    step.axis = axis;
    step.values = &values;
    step.computed = formulas_among(values);
  }

  void add_rows(const ConfigBlock& block, std::uint32_t binds) {
    Step& step = steps_.emplace_back();
    step.binds = binds;
    step.rows = &block;
    std::vector<AxisValue> values;
    for (const auto& row : block.rows) values.insert(values.end(), row.begin(), row.end());
    step.computed = formulas_among(values);
  }

  /// Null when every value is a number.
  std::unique_ptr<BoundProgram> formulas_among(std::span<const AxisValue> values) const {
    std::vector<expr::Formula> formulas;
    for (const AxisValue& value : values) {
      if (!value.formula.empty())
        formulas.push_back({fmt::format("value {}", formulas.size()), value.formula});
    }
    return formulas.empty() ? nullptr : std::make_unique<BoundProgram>(formulas, scope_, request_);
  }

  void place_rules() {
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      std::size_t place = 0;
      for (std::size_t i = 1; i < steps_.size(); ++i) {
        if (rule_axes_[rule] & steps_[i].binds) place = i;
      }
      steps_[place].rules.push_back(rule);
    }
    for (Step& step : steps_) {
      if (step.rules.empty()) continue;
      std::vector<expr::Formula> formulas;
      for (const std::size_t rule : step.rules) formulas.push_back(formula_of(rules_[rule]));
      step.asked = std::make_unique<BoundProgram>(formulas, scope_, request_);
    }
  }

  // ---- the walk

  void descend(std::size_t depth, const CandidateBatch& batch) {
    if (depth == steps_.size()) return keep(batch);
    Step& step = steps_[depth];
    const std::size_t rows = std::max<std::size_t>(1, kPieceRows / step.length());
    for (std::size_t first = 0; first < batch.rows; first += rows) {
      CandidateBatch next = multiply(step, batch, first, std::min(rows, batch.rows - first));
      evaluate_rules(step, next);
      if (next.rows > 0) descend(depth + 1, next);
    }
  }

  /// Combines `count` rows from `first` on with every value of the step's axis; the values vary fastest.
  CandidateBatch multiply(Step& step, const CandidateBatch& batch, std::size_t first, std::size_t count) {
    CandidateBatch piece;
    piece.rows = count;
    piece.values.resize(batch.values.size());
    piece.positions.resize(batch.positions.size());
    const auto repeat = [&](const auto& from, auto& to, std::size_t times) {
      if (from.empty()) return;
      to.reserve(count * times);
      for (std::size_t row = first; row < first + count; ++row) to.insert(to.end(), times, from[row]);
    };
    std::span<const double> computed;
    if (step.computed) {
      for (std::size_t axis = 0; axis < piece.values.size(); ++axis)
        repeat(batch.values[axis], piece.values[axis], 1);
      computed = step.computed->evaluate(piece);
    }
    CandidateBatch next;
    const std::size_t length = step.length();
    next.rows = count * length;
    next.values.resize(batch.values.size());
    next.positions.resize(batch.positions.size());
    for (std::size_t axis = 0; axis < batch.values.size(); ++axis) {
      repeat(batch.values[axis], next.values[axis], length);
      if (!in_space_order_) repeat(batch.positions[axis], next.positions[axis], length);
    }
    if (step.rows) {
      bind_rows(*step.rows, computed, count, next);
      return next;
    }
    const auto& list = *step.values;
    auto& column = next.values[step.axis];
    column.reserve(next.rows);
    for (std::size_t row = 0; row < count; ++row) {
      std::size_t formula = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        column.push_back(list[i].formula.empty()
                             ? list[i].number
                             : whole_number(computed[formula++ * count + row], file_.space->axes[step.axis],
                                            list[i], *block_, request_));
        if (!in_space_order_) next.positions[step.axis].push_back(static_cast<std::uint32_t>(i));
      }
    }
    return next;
  }

  /// Combines each of `count` rows with every row of the block.
  void bind_rows(const ConfigBlock& block, std::span<const double> computed, std::size_t count,
                 CandidateBatch& next) const {
    for (const std::size_t axis : block.row_axes) {
      next.values[axis].resize(next.rows);
      next.positions[axis].resize(next.rows);
    }
    std::size_t formula = 0;
    for (std::size_t at = 0; at < block.rows.size(); ++at) {
      for (std::size_t i = 0; i < block.row_axes.size(); ++i) {
        const std::size_t axis = block.row_axes[i];
        const AxisValue& value = block.rows[at][i];
        for (std::size_t row = 0; row < count; ++row) {
          const std::size_t to = row * block.rows.size() + at;
          next.values[axis][to] = value.formula.empty()
                                      ? value.number
                                      : whole_number(computed[formula * count + row], file_.space->axes[axis],
                                                     value, *block_, request_);
          next.positions[axis][to] = static_cast<std::uint32_t>(at);
        }
        if (!value.formula.empty()) ++formula;
      }
    }
  }

  /// Removes the rows that a rule of the step refuses, and counts them under the first such rule.
  void evaluate_rules(Step& step, CandidateBatch& batch) {
    if (!step.asked) return;
    const auto answers = step.asked->evaluate(batch);
    std::vector<std::uint32_t> kept;
    kept.reserve(batch.rows);
    for (std::size_t row = 0; row < batch.rows; ++row) {
      std::size_t rule = 0;
      while (rule < step.rules.size() && admits(answers[rule * batch.rows + row])) ++rule;
      if (rule == step.rules.size()) {
        kept.push_back(static_cast<std::uint32_t>(row));
      } else {
        refused_[step.rules[rule]] += step.stands_for;
      }
    }
    if (kept.size() == batch.rows) return;
    const auto compact = [&](auto& column) {
      if (column.empty()) return;
      for (std::size_t i = 0; i < kept.size(); ++i) column[i] = column[kept[i]];
      column.resize(kept.size());
    };
    for (auto& column : batch.values) compact(column);
    for (auto& column : batch.positions) compact(column);
    batch.rows = kept.size();
  }

  void keep(const CandidateBatch& batch) {
    if (configs_.size() + found_.size() + batch.rows > kMaxConfigs) {
      fail(Errc::unsupported,
           "rule set '{}' of {} {}: more than {} configs; shorten the list of an axis, or add a rule that "
           "refuses some",
           request_.rules, file_.space->provider, word(file_.space->op), kMaxConfigs);
    }
    for (std::size_t row = 0; row < batch.rows; ++row) {
      KernelConfig config(*file_.space);
      for (std::size_t axis = 0; axis < batch.values.size(); ++axis) {
        config[axis] = static_cast<std::int32_t>(batch.values[axis][row]);
      }
      found_.push_back(config);
      if (in_space_order_) continue;
      for (const auto& column : batch.positions) found_order_.push_back(column[row]);
    }
  }

  /// Appends the block's configs in the order of its lists, without duplicates.
  void collect() {
    std::vector<std::size_t> order(found_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!in_space_order_) {
      const std::size_t axes = file_.space->axes.size();
      const auto key = [&](std::size_t i) { return std::span(found_order_).subspan(i * axes, axes); };
      std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
        return std::ranges::lexicographical_compare(key(a), key(b));
      });
    }
    for (const std::size_t i : order) {
      if (seen_.insert(found_[i]).second) {
        configs_.push_back(found_[i]);
      } else {
        ++duplicates_;
      }
    }
  }

  const FamilyFile& file_;
  const FamilyRequest& request_;
  expr::Scope scope_;
  std::vector<Rule> rules_;
  std::vector<std::uint32_t> rule_axes_;
  std::vector<std::size_t> refused_;
  std::size_t candidates_ = 0, duplicates_ = 0;

  const ConfigBlock* block_ = nullptr;
  std::vector<Step> steps_;
  bool in_space_order_ = true;
  std::vector<KernelConfig> found_;
  std::vector<std::uint32_t> found_order_;  ///< positions in each axis' list, for sorting found_
  std::unordered_set<KernelConfig> seen_;
  ConfigTable configs_;
};

/// The configs that the request's filter admits; the report then counts what sampling and the filter removed.
ConfigTable filtered(const FamilyFile& file, const FamilyRequest& request, const ConfigTable& configs,
                     std::size_t candidates, EnumerationReport* report) {
  ConfigTable kept(*file.space);
  if (request.filter.empty()) {
    kept = configs;
  } else {
    BoundProgram filter({{"filter", request.filter}}, family_scope(*file.space, file.formulas, false),
                        request);
    for (std::size_t i = 0; i < configs.size(); ++i) {
      if (admits(filter.evaluate(configs[i])[0])) kept.push_back(configs[i]);
    }
  }
  if (report) {
    report->candidates = candidates;
    report->refused = {{"rule set " + request.rules, candidates - configs.size()}};
    if (!request.filter.empty()) report->refused.push_back({"filter", configs.size() - kept.size()});
  }
  return kept;
}

}  // namespace

ConfigTable enumerate_configs(const FamilyFile& file, const FamilyRequest& request,
                              EnumerationReport* report) {
  const RuleSet& set = file.rule_set(request.rules);
  if (set.sample.of.empty()) return Enumerator(file, request).run(report);
  FamilyRequest whole = request;
  whole.rules = set.sample.of;
  whole.filter.clear();
  const ConfigTable of = enumerate_configs(file, whole, nullptr);
  const std::vector<SignatureConfigs> sampled =
      sample_rule_set(file, set, request.device, {{request.signature, of}});
  return filtered(file, request, sampled[0].configs, of.size(), report);
}

ConfigTable admitted_configs(const FamilyFile& file, const FamilyRequest& request,
                             const ConfigTable& configs) {
  return Enumerator(file, request).admit(configs);
}

std::vector<SignatureConfigs> enumerate_signatures(const FamilyRequest& request,
                                                   std::span<const Signature> signatures) {
  std::vector<SignatureConfigs> all;
  const RuleSet* sampling = nullptr;
  const FamilyFile* sampling_file = nullptr;
  for (const Signature& signature : signatures) {
    const FamilyFile& file = family_file(request.provider, signature.op);
    const RuleSet& set = file.rule_set(request.rules);
    FamilyRequest one = request;
    one.signature = signature;
    if (!set.sample.of.empty()) {
      sampling = &set;
      sampling_file = &file;
      break;
    }
    all.push_back({signature, enumerate_configs(file, one, nullptr)});
  }
  if (sampling == nullptr) return all;
  FamilyRequest whole = request;
  whole.rules = sampling->sample.of;
  whole.filter.clear();
  all = sample_rule_set(*sampling_file, *sampling, request.device, enumerate_signatures(whole, signatures));
  for (SignatureConfigs& one : all) {
    FamilyRequest filter = request;
    filter.signature = one.signature;
    one.configs = filtered(family_file(request.provider, one.signature.op), filter, one.configs,
                           one.configs.size(), nullptr);
  }
  return all;
}

}  // namespace kscout
