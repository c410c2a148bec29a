#include "export/header.h"

#include <algorithm>
#include <numeric>

#include <kscout/provider.h>
#include <kscout/version.h>

#include "core/fail.h"
#include "core/files.h"
#include "export/cpp_source.h"
#include "family/rules.h"
#include "features/schema.h"
#include "forest/shortlist.h"
#include "lightgbm/lightgbm.h"
#include "op/operation.h"
#include "select/compiled_family.h"

namespace kscout {

extern const std::span<const EmbeddedFile> kExportedFiles;

namespace {

/// Shares equal tables: families with the same table text use one.
class TablePool {
 public:
  /// Adds `make(name)` unless an equal text was added under an earlier name. Returns the name to use.
  template <class Make>
  std::string add(std::string_view kind, Make&& make) {
    std::string body = make(std::string(kind));
    for (const auto& [name, known] : tables_) {
      if (known == body) return name;
    }
    std::string name = fmt::format("{}_{}", kind, tables_.size());
    text_ += make(name);
    tables_.emplace_back(name, std::move(body));
    return name;
  }
  const std::string& text() const { return text_; }

 private:
  std::vector<std::pair<std::string, std::string>> tables_;  ///< name and text, by kind
  std::string text_;
};

const ModelTarget& wanted_target(const Model& model, std::optional<Target> target) {
  const auto& targets = model.data().targets;
  if (!target) return targets.front();
  const auto found = std::ranges::find(targets, *target, &ModelTarget::target);
  if (found != targets.end()) return *found;
  std::string names;
  for (const auto& has : targets) names += (names.empty() ? "" : ", ") + std::string(word(has.target));
  fail(Errc::invalid_argument, "the model was not trained for {}; it has {}", word(*target), names);
}

std::vector<std::uint32_t> first_formulas(std::size_t count) {
  std::vector<std::uint32_t> formulas(count);
  std::iota(formulas.begin(), formulas.end(), 0U);
  return formulas;
}

std::string forest_text(std::string_view name, const Forest& forest) {
  const auto part = [&](std::string_view of) { return fmt::format("{}_{}", name, of); };
  std::string out = cpp_array("std::uint32_t", part("tree_nodes"), forest.tree_nodes) +
                    cpp_array("std::uint32_t", part("tree_leaves"), forest.tree_leaves) +
                    cpp_array("double", part("threshold"), forest.threshold) +
                    cpp_array("std::uint32_t", part("feature"), forest.feature) +
                    cpp_array("std::int32_t", part("left"), forest.left) +
                    cpp_array("std::int32_t", part("right"), forest.right) +
                    cpp_array("std::uint8_t", part("decision"), forest.decision) +
                    cpp_array("double", part("leaf_value"), forest.leaf_value) +
                    cpp_array("std::uint32_t", part("set_words"), forest.set_words) +
                    cpp_array("std::uint32_t", part("set_bits"), forest.set_bits);
  return out +
         fmt::format(
             "inline constexpr Forest {0} = {{{1}, {2}, {0}_tree_nodes, {0}_tree_leaves, {0}_threshold, "
             "{0}_feature,\n    {0}_left, {0}_right, {0}_decision, {0}_leaf_value, {0}_set_words, "
             "{0}_set_bits}};\n",
             name, forest.tree_count(), forest.average);
}

/// A part that all headers share: src/export/<name>-inl.h.
std::string_view fixed_text(std::string_view name) {
  return embedded_file(kExportedFiles, fmt::format("src/export/{}-inl.h", name));
}

/// Joins the parts of a header in the order of their dependencies.
class HeaderWriter {
 public:
  HeaderWriter(const Model& model, const ModelTarget& target)
      : model_(model), target_(target), schema_(with_requirements(*model.data().schema)) {}

  std::string run(const std::string& name_space) {
    const Translation features = translation(first_formulas(feature_count()));
    std::string families = families_text(features);
    std::string out = head(name_space);
    out += fmt::format("namespace {} {{\n\n", name_space);
    out += embedded_file(kExportedFiles, "src/expr/formula-inl.h");
    out += "\n";
    out += embedded_file(kExportedFiles, "src/forest/trees-inl.h");
    out += "\n";
    out += fixed_text("runtime");
    out += "\n";
    out += embedded_file(kExportedFiles, "src/forest/shortlist-inl.h");
    out += "\n" + cpp_problem_types(model_.data().families.front().signature);
    out += "\n";
    out += fixed_text("signature");
    std::vector<double> bytes;
    for (std::size_t type = 0; type < EnumWords<DType>::words.size(); ++type) {
      bytes.push_back(bytes_per_element(static_cast<DType>(type)));
    }
    out += "\n// Bytes of one element of each type.\n" + cpp_array("double", "element_bytes", bytes);
    out += "\n";
    out += fixed_text(fmt::format("{}_sizes", problem_space(op()).operation));
    out += "\n";
    out += embedded_file(kExportedFiles, "src/select/claim-inl.h");
    out +=
        "\n"
        "// Formulas: values that depend on the problem only are computed once (q); those of a config only "
        "are a table (t).\n";
    out += features.code("features");
    out += fmt::format("inline constexpr int feature_count = {};\n", feature_count());
    out += fmt::format("inline constexpr int features_problem_values = {};\n",
                       std::max<std::size_t>(features.problem_values(), 1));
    out += fmt::format("inline constexpr int features_config_values = {};\n", features.config_values());
    out += requirements_text();
    out += "\n// Trees that score a config.\n" + forest_text("score_forest", target_.forest);
    out += fmt::format("inline constexpr double score_sign = {};\n",
                       target_.target == Target::latency ? "-1.0" : "1.0");
    out += speed_text();
    out += "\n";
    out += fixed_text("family");
    out += families;
    out += shortlist_text();
    out += region_text();
    out += confidence_text();
    out += "\n";
    out += fixed_text("select");
    out += fmt::format("\n}}  // namespace {}\n", name_space);
    return out;
  }

 private:
  std::size_t feature_count() const { return model_.data().schema->size(); }
  Op op() const { return model_.data().families.front().signature.op; }

  /// The schema plus its requirements on the problem, as further formulas. Requirements on configs were
  /// checked when the model was made; they are checked again here.
  Schema with_requirements(const Schema& schema) const {
    for (const Family& family : model_.data().families) {
      schema.check_configs(family.device, family.configs, family.traits);
    }
    SchemaData data = schema.data();
    for (const Requirement& requirement : data.requirements) {
      data.features.push_back(
          {fmt::format("requirement {}", data.features.size()), requirement.formula, "1", "", false});
    }
    return Schema(std::move(data));
  }

  Translation translation(std::span<const std::uint32_t> formulas) const {
    return {schema_.program(), formulas, model_.device(), op()};
  }

  std::string head(const std::string& name_space) const {
    const ModelData& data = model_.data();
    std::string trained_for;
    for (const Family& family : data.families) {
      trained_for += fmt::format("//   {} {}, {} configs\n", word(family.signature.dtype_a),
                                 word(family.signature.layout), family.configs.size());
    }
    return fmt::format(
        "// Chooses a {0} kernel of provider {1} for {2}. Written by `kscout export --format header` ({3}); "
        "do not "
        "edit.\n"
        "//\n"
        "//     {4}::Problem problem;\n"
        "//     {11};\n"
        "//     const {4}::Choice choice = {4}::select(problem);\n"
        "//     if (choice.config >= 0) std::puts(choice.name);\n"
        "//\n"
        "// C++17, no dependency. With -ffp-contract=off, and never with -ffast-math, scores and choices are "
        "those of "
        "the\n"
        "// model file bit for bit. Trained for\n"
        "{5}"
        "// Rules {6}, target {7}, {8} trees, schema {9}, measurements {10}.\n"
        "#pragma once\n\n"
        "#include <cmath>\n#include <cstddef>\n#include <cstdint>\n#include <cstring>\n#include "
        "<initializer_list>\n#include <limits>\n\n"
        "#ifdef __FAST_MATH__\n"
        "#error \"this header needs IEEE 754 arithmetic: NaN means unknown; compile without -ffast-math\"\n"
        "#endif\n\n",
        word(op()), model_.provider(), single_line(model_.device().name), KSCOUT_VERSION, name_space,
        trained_for, single_line(data.families.front().rules), word(target_.target),
        target_.forest.tree_count(), single_line(std::string(data.schema->name())),
        single_line(data.fingerprint), cpp_example_sizes("problem", example()));
  }

  Problem example() const {
    return parse_any_problem(fmt::format("{}:{}", word(op()), operation(op()).example));
  }

  std::string requirements_text() const {
    std::vector<std::uint32_t> of_problem;
    for (auto f = static_cast<std::uint32_t>(feature_count()); f < schema_.size(); ++f) {
      if (schema_.depends(f).problem_only()) of_problem.push_back(f);
    }
    std::string out = "\n// Whether the formulas are defined for a problem.\n";
    if (of_problem.empty()) return out + "inline bool is_described(const Problem&) { return true; }\n";
    const Translation asked = translation(of_problem);
    out += asked.code("requirements");
    return out + fmt::format(
                     "inline bool is_described(const Problem& p) {{\n  double q[{}], holds[{}];\n"
                     "  requirements_of_problem(p, q);\n  requirements(q, nullptr, holds);\n"
                     "  for (const double held : holds) {{\n    if (!(held != 0)) return false;\n  }}\n"
                     "  return true;\n}}\n",
                     std::max<std::size_t>(asked.problem_values(), 1), of_problem.size());
  }

  /// Code that converts a score to a speed. For the targets relative and rank, separate trees predict the
  /// best config's speed.
  std::string speed_text() const {
    const bool against_best = target_.target == Target::relative || target_.target == Target::rank;
    std::string out, best = "0.0";
    if (against_best) {
      const Translation features = translation(model_.data().best_features);
      out += "\n// Trees that predict the speed of a problem's best config: ln TFLOPS.\n";
      out += features.code("best_features") + forest_text("best_forest", model_.data().best_tflops);
      out += fmt::format(
          "inline double best_log_tflops(const Problem& p) {{\n  double q[{}], row[{}];\n"
          "  best_features_of_problem(p, q);\n  best_features(q, nullptr, row);\n"
          "  return best_forest.predict(row);\n}}\n",
          std::max<std::size_t>(features.problem_values(), 1),
          std::max<std::size_t>(model_.data().best_features.size(), 1));
      best = "best_log_tflops(p)";
    }
    return out + fmt::format(
                     "\n// TFLOPS that a score predicts; top_score is the highest of the problem's configs.\n"
                     "inline double predicted_tflops([[maybe_unused]] const Problem& p, double score,\n"
                     "                               [[maybe_unused]] double top_score) {{\n"
                     "  const double claim = claimed_log_tflops({}, {}, score, top_score, flop_count(p), "
                     "min_bytes(p));\n"
                     "  const double best = {};\n  return std::exp(best + {} + {} * claim);\n}}\n",
                     static_cast<int>(target_.target), static_cast<int>(target_.scale), best,
                     cpp_number(target_.offset), cpp_number(target_.slope));
  }

  /// Only choices by the model's default target have a guard.
  std::string region_text() const {
    const ModelData& data = model_.data();
    const bool guards = data.guard && target_.target == model_.default_target();
    const Guard guard = data.guard.value_or(Guard{});
    return fmt::format(
        "\n// The trained problems, and when the library's first suggestion answers far from them.\n"
        "inline constexpr bool has_region = {}, has_guard = {};\n"
        "inline constexpr int region_steps = {};\n"
        "inline constexpr double guard_distance = {}, guard_lead = {};\n\n{}",
        data.region.has_value(), guards, Region::steps, cpp_number(guard.distance), cpp_number(guard.lead),
        fixed_text("region"));
  }

  /// Only the model's default target has a calibrated confidence.
  const Confidence* confidence() const {
    const auto& of = model_.data().confidence;
    return of && target_.target == model_.default_target() ? &*of : nullptr;
  }

  std::string confidence_text() const {
    static_assert(Confidence::first_size == 3 && Confidence::sizes == 4 && Confidence::inputs.size() == 8,
                  "confidence-inl.h spells the inputs out");
    std::string out = fmt::format("inline constexpr int max_ranked = {};\n", Confidence::top);
    out += "\n";
    out += fixed_text("best");
    const Confidence* const of = confidence();
    const auto constant = [&](std::string_view name, double value) {
      out += fmt::format("inline constexpr double {} = {};\n", name, cpp_number(value));
    };
    out += "\n// Confidence in a choice: logistic regression on gaps, sizes and distance.\n";
    if (!of)
      return out +
             "inline double confidence_of(const Problem&, const Family&, const Best&) { return unknown; }\n";
    constant("confidence_min_gap", Confidence::min_gap);
    constant("confidence_inside", Confidence::inside);
    out += cpp_array("double", "confidence_weight", std::span<const double>(of->weight));
    out += cpp_array("double", "confidence_low", std::span<const double>(of->low));
    out += cpp_array("double", "confidence_high", std::span<const double>(of->high));
    out += "\n";
    out += fixed_text("confidence");
    return out;
  }

  std::string answering_text() const {
    std::vector<std::string> answering;
    for (std::size_t i = 0; i < EnumWords<Epilogue>::words.size(); ++i) {
      const Epilogue answers = model_.answering_epilogue(static_cast<Epilogue>(i));
      answering.push_back(fmt::format("Epilogue::{}", word(answers)));
    }
    return "\n// By epilogue: the one whose family answers where there is no family of the epilogue "
           "itself.\n" +
           cpp_array("Epilogue", "answering_epilogues", answering);
  }

  std::string families_text(const Translation& features) {
    TablePool pool;
    std::string entries;
    std::size_t max_problem_values = 1, max_configs = 1;
    const auto& all = model_.data().families;
    for (std::size_t position = 0; position < all.size(); ++position) {
      const Family& family = all[position];
      const ApplicabilityRules rules(family.applicability, family.configs, family.traits, family.device);
      const Translation asked(rules.program(), first_formulas(rules.program().size()), family.device, op());
      max_problem_values = std::max(max_problem_values, asked.problem_values());
      const std::string names = pool.add("names", [&](const auto& name) { return names_text(name, family); });
      const std::string configs =
          pool.add("configs", [&](const auto& name) { return configs_text(name, family.configs); });
      const std::string feature_values = pool.add("feature_values", [&](const auto& name) {
        return cpp_array("double", name, features.config_rows(family.configs, family.traits));
      });
      const std::string rule_values = pool.add("rule_values", [&](const auto& name) {
        return cpp_array("double", name, asked.config_rows(family.configs, family.traits));
      });
      const std::string always = pool.add("always", [&](const auto& name) {
        const CompiledFamily compiled(family);
        return cpp_array("std::uint8_t", name,
                         std::vector<std::uint8_t>(compiled.always().begin(), compiled.always().end()));
      });
      const std::string outputs = outputs_text(pool, family);
      const auto suggestion = CompiledFamily(family).first_suggestion();
      std::vector<std::int32_t> prototypes;
      if (const auto& region = model_.data().region) {
        for (const Region::Prototype& prototype : region->prototypes[position])
          prototypes.insert(prototypes.end(), prototype.begin(), prototype.end());
      }
      const std::string prototype_table =
          prototypes.empty() ? "nullptr" : pool.add("prototypes", [&](const auto& name) {
            return cpp_array("std::int32_t", name, prototypes);
          });
      max_configs = std::max(max_configs, family.configs.size());
      const std::string applicable =
          pool.add("rules", [&](const auto& name) { return rules_text(name, family, asked); });
      const Signature& s = family.signature;
      entries += fmt::format(
          "    {{{{DType::{}, DType::{}, DType::{}, DType::{}, Layout::{}, Epilogue::{}, {}}}, {}, {}, {}, "
          "{}, "
          "{},\n"
          "     {}, {}, {}, {}, {}, {}, {}, {}, {}_of_problem, {}_serve}},\n",
          word(s.dtype_a), word(s.dtype_b), word(s.dtype_c), word(s.dtype_acc), word(s.layout),
          word(s.epilogue), s.accumulate, family.configs.size(), family.default_config, outputs, always,
          cpp_number(confidence() ? confidence()->bias_of(position) : 0),
          suggestion ? static_cast<std::int64_t>(*suggestion) : -1, prototype_table, prototypes.size() / 4,
          names, configs, feature_values, rule_values, asked.config_values(), applicable, applicable);
    }
    const ConfigSpace& space = model_.data().families.front().configs.space();
    std::vector<std::string> axes;
    for (const Axis& axis : space.axes) axes.push_back(cpp_text(axis.name));
    return "\n" + cpp_array("const char*", "axis_names", axes) +
           fmt::format("inline constexpr int axis_count = {};\n", axes.size()) + pool.text() +
           fmt::format("inline constexpr int max_rule_problem_values = {};\n", max_problem_values) +
           fmt::format("inline constexpr int max_configs = {};\n", max_configs) + answering_text() +
           fmt::format("inline constexpr Family families[{}] = {{\n{}}};\n", model_.data().families.size(),
                       entries);
  }

  /// The table of a family's outputs, or the null pointer of a family without a shortlist.
  std::string outputs_text(TablePool& pool, const Family& family) const {
    const auto& shortlist = model_.data().shortlist;
    if (!shortlist || family.configs.size() <= kNoShortlistFamily) return "nullptr";
    std::vector<std::int32_t> outputs;
    for (const std::uint32_t output : outputs_of(*shortlist, family.configs).of)
      outputs.push_back(output == FamilyOutputs::none ? -1 : static_cast<std::int32_t>(output));
    return pool.add("outputs", [&](const auto& name) { return cpp_array("std::int32_t", name, outputs); });
  }

  /// The network; it has no outputs when the model has none.
  std::string shortlist_text() const {
    const Shortlist shortlist = model_.data().shortlist.value_or(Shortlist{});
    std::string out = "\n// The network that chooses the configs to score.\n";
    out += fmt::format("inline constexpr std::size_t shortlisted = {};\n", kShortlisted);
    out += fmt::format("inline constexpr std::size_t first_trees = {};\n", model_.data().first_trees);
    out += fmt::format("inline constexpr std::size_t kept_by_first_trees = {};\n", kKeptByFirstTrees);
    out += fmt::format("inline constexpr int max_shortlist_inputs = {};\n", Shortlist::max_inputs);
    out += fmt::format("inline constexpr std::int64_t shortlist_cores = {};\n",
                       shortlist_cores(model_.device().cores));
    out += cpp_array("std::int32_t", "shortlist_mean",
                     std::vector<std::int32_t>(shortlist.mean.begin(), shortlist.mean.end()));
    out += cpp_array("std::int32_t", "shortlist_factor",
                     std::vector<std::int32_t>(shortlist.factor.begin(), shortlist.factor.end()));
    out += fixed_text("layer");
    constexpr std::string_view kNames[] = {"first", "second", "last"};
    for (std::size_t i = 0; i < shortlist.layers.size(); ++i) {
      const Shortlist::Layer& layer = shortlist.layers[i];
      const auto part = [&](std::string_view of) { return fmt::format("shortlist_{}_{}", kNames[i], of); };
      out += cpp_array("std::int8_t", part("weights"), layer.weights) +
             cpp_array("std::int32_t", part("bias"), layer.bias) +
             cpp_array("std::int32_t", part("factor"), layer.factor) +
             fmt::format(
                 "inline constexpr ShortlistLayer shortlist_{0} = {{{1}, {2}, shortlist_{0}_weights, "
                 "shortlist_{0}_bias, shortlist_{0}_factor}};\n",
                 kNames[i], layer.inputs, layer.outputs);
    }
    return out + "\n" + std::string(fixed_text("shortlist"));
  }

  static std::string names_text(const std::string& name, const Family& family) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < family.configs.size(); ++i) names.push_back(cpp_text(family.name(i)));
    return cpp_array("const char*", name, names);
  }

  static std::string configs_text(const std::string& name, const ConfigTable& configs) {
    std::vector<std::int32_t> values;
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const KernelConfig config = configs[i];
      values.insert(values.end(), config.value.begin(),
                    config.value.begin() + static_cast<std::ptrdiff_t>(configs.space().axes.size()));
    }
    return cpp_array("std::int32_t", name, values);
  }

  /// The rules with their names and reasons, and a function that checks all of them.
  static std::string rules_text(const std::string& name, const Family& family, const Translation& asked) {
    std::string out = "\n// A config applies to a problem when all of these rules hold:\n";
    for (const Rule& rule : family.applicability) {
      out += fmt::format("//   {}: {}\n", single_line(rule.name), single_line(rule.because));
    }
    out += asked.code(name);
    return out +
           fmt::format(
               "inline bool {0}_serve(const double* q, const double* t) {{\n  double holds[{1}] = {{}};\n"
               "  {0}(q, t, holds);\n  for (int i = 0; i < {2}; ++i) {{\n"
               "    if (!formula::is_true(holds[i])) return false;\n  }}\n  return true;\n}}\n\n",
               name, std::max<std::size_t>(family.applicability.size(), 1), family.applicability.size());
  }

  /// Makes a text fit for a comment: one line that does not end in a backslash.
  static std::string single_line(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == '\\') c = ' ';
    }
    return text;
  }

  const Model& model_;
  const ModelTarget& target_;
  Schema schema_;  ///< the model's features, then its requirements
};

}  // namespace

std::string model_header(const Model& model, const HeaderOptions& options) {
  const Family& family = model.data().families.front();
  const std::string name_space =
      options.name_space.empty()
          ? cpp_name(model_folder_name(family.signature.op, family.signature.dtype_a, family.device))
          : options.name_space;
  check_namespace(name_space);
  return HeaderWriter(model, wanted_target(model, options.target)).run(name_space);
}

LightgbmModel lightgbm_model(const Model& model, std::optional<Target> target) {
  const ModelTarget& wanted = wanted_target(model, target);
  return lightgbm_model(wanted.forest, *model.data().schema, wanted.target == Target::rank);
}

std::string model_lightgbm(const Model& model, std::optional<Target> target) {
  return lightgbm_text(lightgbm_model(model, target));
}

}  // namespace kscout
