/// \file
/// Enumeration: axes are bound one after the other, depth first and in pieces, and a rule is asked as soon as
/// the axes that it reads are bound. What it refuses is never multiplied by the axes that follow, so the cost
/// is that of the candidates that come close, not of the product.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <unordered_set>

#include "core/fail.h"
#include "family/family_file.h"

namespace kscout {
namespace {

/// Rows per piece: large enough to evaluate by column, small enough to stay in a cache.
constexpr std::size_t kPieceRows = 4096;
constexpr std::size_t kMostCandidates = std::size_t{1} << 62;

/// Candidates with some axes bound.
struct Batch {
  std::size_t rows = 1;
  std::vector<std::vector<double>> values;            ///< by axis; unbound ones are empty
  std::vector<std::vector<std::uint32_t>> positions;  ///< the same, as positions in the block's lists
};

/// Formulas over c., d., s. with device and signature filled in.
class BoundProgram {
 public:
  BoundProgram(const std::vector<expr::Formula>& formulas, const expr::Scope& scope,
               const FamilyRequest& request)
      : program_(expr::Program::compile(formulas, scope)), inputs_(program_) {
    inputs_.set("d", request.device);
    inputs_.set("s", request.signature);
  }
  BoundProgram(const BoundProgram&) = delete;  // inputs_ points to program_
  BoundProgram& operator=(const BoundProgram&) = delete;

  std::size_t size() const { return program_.size(); }
  const expr::Program& program() const { return program_; }

  /// Formula f of row r at [f * rows + r].
  std::span<const double> evaluate(const Batch& batch) {
    columns_.assign(inputs_.columns().begin(), inputs_.columns().end());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const expr::Input& input = program_.inputs()[i];
      if (program_.groups()[input.group].space) columns_[i] = {batch.values[input.field].data(), 1};
    }
    out_.resize(size() * batch.rows);
    program_.evaluate(columns_, batch.rows, out_, scratch_);
    return out_;
  }

  std::span<const double> evaluate(const KernelConfig& config) {
    inputs_.set("c", config);
    out_.resize(size());
    program_.evaluate(inputs_.columns(), 1, out_, scratch_);
    return out_;
  }

 private:
  expr::Program program_;
  expr::Inputs inputs_;
  std::vector<expr::Column> columns_;
  std::vector<double> out_;
  expr::Scratch scratch_;
};

/// NaN does not admit: what a device is not known to allow is left out.
bool admits(double value) { return value != 0 && value == value; }

/// The rules that decide membership, the request's filter last.
std::vector<Rule> membership_rules(const FamilyFile& file, const FamilyRequest& request) {
  std::vector<Rule> rules;
  for (const Rule& rule : file.rules) {
    if (rule.kind != RuleKind::serves) rules.push_back(rule);
  }
  if (!request.filter.empty())
    rules.push_back({"filter", RuleKind::worth, request.filter, "asked for by the filter"});
  return rules;
}

/// With a name that no formula can refer to.
expr::Formula formula_of(const Rule& rule) {
  return {rule.name == "filter" ? "filter" : "rule " + rule.name, rule.admits};
}

std::vector<expr::Formula> formulas_of(std::span<const Rule> rules) {
  std::vector<expr::Formula> formulas;
  for (const Rule& rule : rules) formulas.push_back(formula_of(rule));
  return formulas;
}

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

  ConfigTable run(EnumerationReport* report) {
    for (const ConfigBlock& block : file_.rule_set(request_.rules).blocks) enumerate_block(block);
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
  /// Binds one axis, then asks the rules that this makes answerable. The first step binds nothing.
  struct Step {
    std::uint32_t binds = 0;  ///< bits of axes
    std::size_t axis = 0;     ///< of `values`
    const std::vector<AxisValue>* values = nullptr;
    const ConfigBlock* rows = nullptr;       ///< instead of values: the block's rows
    std::unique_ptr<BoundProgram> computed;  ///< values that are formulas, in the order of the list
    std::vector<std::size_t> rules;
    std::unique_ptr<BoundProgram> asked;
    std::size_t stands_for = 1;  ///< candidates that one row after this step becomes

    std::size_t length() const { return values ? values->size() : rows ? rows->rows.size() : 1; }
  };

  void enumerate_block(const ConfigBlock& block) {
    block_ = &block;
    Batch start;
    start.values.resize(file_.space->axes.size());
    start.positions.resize(file_.space->axes.size());
    if (!block.when.empty() &&
        !admits(BoundProgram({{"when", block.when}}, scope_, request_).evaluate(start)[0]))
      return;
    plan(block);
    found_.clear();
    found_order_.clear();
    ask(steps_.front(), start);
    if (start.rows > 0) descend(1, start);
    collect();
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
    if (!block.rows.empty()) {
      Step& step = steps_.emplace_back();
      step.rows = &block;
      for (const std::size_t axis : block.row_axes) step.binds |= 1u << axis;
      bound = step.binds;
    }
    for (std::size_t left = axes - block.row_axes.size(); left > 0; --left) {
      const std::size_t axis = next_axis(block, needed, bound);
      in_space_order_ = in_space_order_ && axis + 1 == steps_.size();
      bound |= 1u << axis;
      add_step(axis, block.values[axis]);
    }
    place_rules();
    std::size_t product = 1;
    for (std::size_t i = steps_.size(); i-- > 0;) {
      steps_[i].stands_for = product;
      const std::size_t length = steps_[i].length();
      if (product > kMostCandidates / length)
        fail(Errc::corrupt_data, "{}: more than 2^62 candidates", block.where);
      product *= length;
    }
    candidates_ += product;
  }

  /// The first unbound axis in space order whose formulas read bound axes only.
  std::size_t next_axis(const ConfigBlock& block, std::span<const std::uint32_t> needed,
                        std::uint32_t bound) const {
    for (std::size_t axis = 0; axis < block.values.size(); ++axis) {
      if (!(bound >> axis & 1) && (needed[axis] & ~bound) == 0) return axis;
    }
    std::string names;
    for (std::size_t axis = 0; axis < block.values.size(); ++axis) {
      if (!(bound >> axis & 1))
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", file_.space->axes[axis].name);
    }
    fail(Errc::corrupt_data, "{}: the values of axes {} need each other", block.where, names);
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
    std::vector<expr::Formula> formulas;
    for (const AxisValue& value : values) {
      if (!value.formula.empty())
        formulas.push_back({fmt::format("value {}", formulas.size()), value.formula});
    }
    if (!formulas.empty()) step.computed = std::make_unique<BoundProgram>(formulas, scope_, request_);
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

  void descend(std::size_t depth, const Batch& batch) {
    if (depth == steps_.size()) return keep(batch);
    Step& step = steps_[depth];
    const std::size_t rows = std::max<std::size_t>(1, kPieceRows / step.length());
    for (std::size_t first = 0; first < batch.rows; first += rows) {
      Batch next = multiply(step, batch, first, std::min(rows, batch.rows - first));
      ask(step, next);
      if (next.rows > 0) descend(depth + 1, next);
    }
  }

  /// `count` rows from `first` on, each with every value of the step's axis; the values vary fastest.
  Batch multiply(Step& step, const Batch& batch, std::size_t first, std::size_t count) {
    Batch piece;
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
    Batch next;
    const std::size_t length = step.length();
    next.rows = count * length;
    next.values.resize(batch.values.size());
    next.positions.resize(batch.positions.size());
    for (std::size_t axis = 0; axis < batch.values.size(); ++axis) {
      repeat(batch.values[axis], next.values[axis], length);
      if (!in_space_order_) repeat(batch.positions[axis], next.positions[axis], length);
    }
    if (step.rows) {
      bind_rows(*step.rows, count, next);
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

  /// Each of `count` rows with every row of the block.
  static void bind_rows(const ConfigBlock& block, std::size_t count, Batch& next) {
    for (std::size_t i = 0; i < block.row_axes.size(); ++i) {
      const std::size_t axis = block.row_axes[i];
      for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t at = 0; at < block.rows.size(); ++at) {
          next.values[axis].push_back(block.rows[at][i]);
          next.positions[axis].push_back(static_cast<std::uint32_t>(at));
        }
      }
    }
  }

  /// Drops the rows that a rule of the step refuses and counts them under the first such rule.
  void ask(Step& step, Batch& batch) {
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

  void keep(const Batch& batch) {
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

  /// Appends what the block found, in the order of its lists, without what is there already.
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
  std::vector<std::uint32_t> found_order_;  ///< positions of found_, axis by axis
  std::unordered_set<KernelConfig> seen_;
  ConfigTable configs_;
};

/// The axes on which the config differs from the nearest of the block's rows.
std::vector<std::size_t> axes_outside_rows(const ConfigBlock& block, const KernelConfig& config) {
  std::vector<std::size_t> fewest = block.row_axes;
  for (const auto& row : block.rows) {
    std::vector<std::size_t> outside;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] != config[block.row_axes[i]]) outside.push_back(block.row_axes[i]);
    }
    if (outside.size() < fewest.size()) fewest = std::move(outside);
  }
  return fewest;
}

/// The axes whose value is not in the block's list.
std::vector<std::size_t> axes_outside(const FamilyFile& file, const FamilyRequest& request,
                                      const ConfigBlock& block, const KernelConfig& config) {
  const expr::Scope scope = family_scope(*file.space, file.formulas, false);
  std::vector<std::size_t> outside = axes_outside_rows(block, config);
  for (std::size_t axis = 0; axis < file.space->axes.size(); ++axis) {
    if (std::ranges::find(block.row_axes, axis) != block.row_axes.end()) continue;
    const bool inside = std::ranges::any_of(block.values[axis], [&](const AxisValue& value) {
      if (value.formula.empty()) return value.number == config[axis];
      BoundProgram program({{"value", value.formula}}, scope, request);
      return program.evaluate(config)[0] == expr::axis_number(config[axis]);
    });
    if (!inside) outside.push_back(axis);
  }
  return outside;
}

/// The block that comes closest, as a sentence about the axes that do not fit it.
std::string outside_sentence(const FamilyFile& file, const ConfigBlock& block,
                             std::span<const std::size_t> axes, const KernelConfig& config) {
  std::string text = fmt::format("nearest block {}:", block.where);
  for (const std::size_t axis : axes) {
    std::vector<std::string> listed;
    if (block.values[axis].empty()) listed.emplace_back("its configs");
    for (const AxisValue& value : block.values[axis]) {
      listed.push_back(value.formula.empty() ? axis_value_text(file.space->axes[axis], value.number)
                                             : value.formula);
    }
    text += fmt::format("{} {} = {} is not among [{}]", axis == axes.front() ? "" : ";",
                        file.space->axes[axis].name, axis_value_text(file.space->axes[axis], config[axis]),
                        fmt::join(listed, ", "));
  }
  return text;
}

}  // namespace

ConfigTable enumerate_configs(const FamilyFile& file, const FamilyRequest& request,
                              EnumerationReport* report) {
  return Enumerator(file, request).run(report);
}

std::vector<Rule> why_not_in(const FamilyFile& file, const FamilyRequest& request,
                             const KernelConfig& config) {
  if (config.space != file.space) {
    fail(Errc::invalid_argument, "a config of {} is not of the family {}",
         config.space ? config.space->provider : "no space", file.name);
  }
  const auto rules = membership_rules(file, request);
  BoundProgram program(formulas_of(rules), family_scope(*file.space, file.formulas, false), request);
  const auto answers = program.evaluate(config);
  std::vector<Rule> refusing;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!admits(answers[i])) refusing.push_back(rules[i]);
  }
  const RuleSet& set = file.rule_set(request.rules);
  std::vector<std::size_t> fewest;
  const ConfigBlock* nearest = nullptr;
  for (const ConfigBlock& block : set.blocks) {
    if (!block.when.empty()) {
      BoundProgram holds({{"when", block.when}}, family_scope(*file.space, file.formulas, false), request);
      if (!admits(holds.evaluate(config)[0])) continue;
    }
    auto outside = axes_outside(file, request, block, config);
    if (outside.empty()) return refusing;
    if (nearest && outside.size() >= fewest.size()) continue;
    nearest = &block;
    fewest = std::move(outside);
  }
  refusing.push_back({"rule set " + set.name, RuleKind::worth, "",
                      nearest ? outside_sentence(file, *nearest, fewest, config)
                              : "none of its blocks is for this signature and device"});
  return refusing;
}

}  // namespace kscout
