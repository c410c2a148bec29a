#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/fail.h"
#include "core/files.h"
#include "core/numbers.h"
#include "core/split.h"
#include "lightgbm/lightgbm.h"

namespace kscout {

namespace {

/// Lines of a text with their numbers.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return true;
  }
  std::size_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

/// key=value lines of one block (the header, or one tree).
struct Block {
  struct Value {
    std::string_view text;
    std::size_t line;
  };
  std::unordered_map<std::string_view, Value> values;
  std::size_t line = 0;  ///< first line of the block

  bool has(std::string_view key) const { return values.contains(key); }
  const Value& at(std::string_view key) const {
    const auto found = values.find(key);
    if (found == values.end()) {
      fail(Errc::corrupt_data, "LightGBM model, block at line {}: '{}=' is missing", line, key);
    }
    return found->second;
  }
  std::string_view text_or(std::string_view key, std::string_view otherwise) const {
    return has(key) ? at(key).text : otherwise;
  }
};

template <class T>
T parse_number(std::string_view key, std::string_view text, std::size_t line) {
  if (const auto value = number_in<T>(text)) return *value;
  fail(Errc::corrupt_data, "LightGBM model, line {}: '{}' in {} is not a number that fits", line,
       text.substr(0, 40), key);
}

template <class T>
T number_of(const Block& block, std::string_view key) {
  const auto& value = block.at(key);
  return parse_number<T>(key, value.text, value.line);
}

/// Reads exactly `count` numbers separated by single spaces.
template <class T>
std::vector<T> numbers_of(const Block& block, std::string_view key, std::size_t count) {
  const auto& value = block.at(key);
  std::vector<T> numbers;
  numbers.reserve(std::min(count, value.text.size()));
  std::string_view rest = value.text;
  while (!rest.empty()) {
    const std::size_t end = rest.find(' ');
    numbers.push_back(parse_number<T>(key, rest.substr(0, end), value.line));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  if (numbers.size() != count) {
    fail(Errc::corrupt_data, "LightGBM model, line {}: {} has {} values instead of {}", value.line, key,
         numbers.size(), count);
  }
  return numbers;
}

std::vector<std::string> words_of(std::string_view text) {
  const auto words = parts_in(text, " ");
  return {words.begin(), words.end()};
}

/// Objectives grouped by their link. An additional word of the regression objectives states reg_sqrt.
constexpr std::string_view kPlainObjectives[] = {"regression", "regression_l1", "huber",      "fair",
                                                 "quantile",   "mape",          "lambdarank", "rank_xendcg"};
constexpr std::string_view kExponentialObjectives[] = {"poisson", "gamma", "tweedie"};

/// Reads the first word of the objective and its link; throws unsupported for other objectives.
void read_objective(std::string_view text, LightgbmModel& model) {
  const auto words = words_of(text);
  if (words.empty() || words[0] == "none" || words[0] == "custom") return;
  model.objective = words[0];
  if (std::ranges::find(kExponentialObjectives, words[0]) != std::end(kExponentialObjectives)) {
    model.link = Link::exponential;
    return;
  }
  if (std::ranges::find(kPlainObjectives, words[0]) == std::end(kPlainObjectives)) {
    fail(Errc::unsupported, "LightGBM objective '{}': supported are {}, {}", words[0],
         fmt::join(kPlainObjectives, ", "), fmt::join(kExponentialObjectives, ", "));
  }
  if (std::ranges::find(words, "sqrt") != words.end()) model.link = Link::signed_square;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void add_categories(const Block& block, std::size_t sets, Forest& forest) {
  const auto bounds = numbers_of<std::uint32_t>(block, "cat_boundaries", sets + 1);
  if (bounds.front() != 0 || !std::is_sorted(bounds.begin(), bounds.end())) {
    fail(Errc::corrupt_data, "LightGBM model, line {}: cat_boundaries do not rise from 0",
         block.at("cat_boundaries").line);
  }
  append(forest.set_bits, numbers_of<std::uint32_t>(block, "cat_threshold", bounds.back()));
  const std::uint32_t first = forest.set_words.back();
  for (std::size_t set = 1; set <= sets; ++set) forest.set_words.push_back(first + bounds[set]);
}

/// Appends one tree.
void add_tree(const Block& block, Forest& forest) {
  if (block.text_or("is_linear", "0") != "0") {
    fail(Errc::unsupported, "LightGBM model, line {}: linear trees; train with linear_tree=false",
         block.line);
  }
  const auto leaves = number_of<std::uint32_t>(block, "num_leaves");
  if (leaves < 1) fail(Errc::corrupt_data, "LightGBM model, line {}: a tree without leaves", block.line);
  const std::size_t nodes = leaves - 1;
  const auto sets = number_of<std::uint32_t>(block, "num_cat");
  if (sets > nodes) {
    fail(Errc::corrupt_data, "LightGBM model, line {}: {} categorical splits in {} nodes", block.line, sets,
         nodes);
  }
  append(forest.leaf_value, numbers_of<double>(block, "leaf_value", leaves));
  if (nodes > 0) {
    append(forest.feature, numbers_of<std::uint32_t>(block, "split_feature", nodes));
    append(forest.left, numbers_of<std::int32_t>(block, "left_child", nodes));
    append(forest.right, numbers_of<std::int32_t>(block, "right_child", nodes));
    auto thresholds = numbers_of<double>(block, "threshold", nodes);
    const auto types = numbers_of<std::int32_t>(block, "decision_type", nodes);
    const auto first_set = static_cast<double>(forest.set_count());
    for (std::size_t i = 0; i < nodes; ++i) {
      if (types[i] < 0 || types[i] > Decision::most) {
        fail(Errc::corrupt_data, "LightGBM model, line {}: decision_type {}", block.at("decision_type").line,
             types[i]);
      }
      forest.decision.push_back(static_cast<std::uint8_t>(types[i]));
      if ((types[i] & Decision::categorical) == 0) continue;
      if (!(thresholds[i] >= 0 && thresholds[i] < sets)) {
        fail(Errc::corrupt_data, "LightGBM model, line {}: category set {} of {}", block.at("threshold").line,
             thresholds[i], sets);
      }
      thresholds[i] += first_set;
    }
    append(forest.threshold, thresholds);
  }
  if (sets > 0) add_categories(block, sets, forest);
  forest.tree_nodes.push_back(static_cast<std::uint32_t>(forest.threshold.size()));
  forest.tree_leaves.push_back(static_cast<std::uint32_t>(forest.leaf_value.size()));
}

void read_header(const Block& header, LightgbmModel& model) {
  const auto version = header.at("version").text;
  if (version != "v3" && version != "v4") {
    fail(Errc::unsupported, "LightGBM model version '{}': this program reads v3 and v4", version);
  }
  if (number_of<int>(header, "num_class") != 1 || number_of<int>(header, "num_tree_per_iteration") != 1) {
    fail(Errc::unsupported,
         "LightGBM model with {} classes: multiclass models are not supported; train one output",
         header.at("num_class").text);
  }
  const auto last = number_of<std::int32_t>(header, "max_feature_idx");
  if (last < 0) fail(Errc::corrupt_data, "LightGBM model: max_feature_idx is {}", last);
  model.feature_names = words_of(header.at("feature_names").text);
  if (model.feature_names.size() != static_cast<std::size_t>(last) + 1) {
    fail(Errc::corrupt_data, "LightGBM model, line {}: {} feature names, max_feature_idx is {}",
         header.at("feature_names").line, model.feature_names.size(), last);
  }
  model.forest.feature_count = static_cast<std::uint32_t>(last) + 1;
  model.forest.average = header.has("average_output");
  read_objective(header.text_or("objective", ""), model);
}

}  // namespace

double LightgbmModel::output(double score) const noexcept {
  switch (link) {
    case Link::signed_square:
      return static_cast<double>((score > 0) - (score < 0)) * score * score;
    case Link::exponential:
      return std::exp(score);
    case Link::identity:
      break;
  }
  return score;
}

LightgbmModel parse_lightgbm(std::string_view text) {
  Lines lines(text);
  std::string_view line;
  if (!lines.next(line) || line != "tree") {
    fail(Errc::corrupt_data, "not a LightGBM text model: the first line is '{}' instead of 'tree'",
         line.substr(0, 40));
  }
  LightgbmModel model;
  Block block;
  block.line = 1;
  std::size_t announced = 0;
  std::optional<std::size_t> tree;  // number of the tree whose block is open; none in the header
  const auto close_block = [&] {
    if (tree) return add_tree(block, model.forest);
    read_header(block, model);
    announced = words_of(block.text_or("tree_sizes", "")).size();
  };
  bool ended = false;
  while (!ended && lines.next(line)) {
    if (line.empty()) continue;
    ended = line == "end of trees";
    if (ended || line.starts_with("Tree=")) {
      close_block();
      const std::size_t expected = tree ? *tree + 1 : 0;
      if (!ended && parse_number<std::size_t>("Tree", line.substr(5), lines.number()) != expected) {
        fail(Errc::corrupt_data, "LightGBM model, line {}: '{}' where tree {} was expected", lines.number(),
             line, expected);
      }
      tree = expected;
      block = {};
      block.line = lines.number();
      continue;
    }
    const std::size_t equals = line.find('=');
    const auto value = equals == std::string_view::npos ? std::string_view{} : line.substr(equals + 1);
    if (!block.values.emplace(line.substr(0, equals), Block::Value{value, lines.number()}).second) {
      fail(Errc::corrupt_data, "LightGBM model, line {}: '{}' occurs twice", lines.number(),
           line.substr(0, std::min<std::size_t>(equals, 40)));
    }
  }
  if (!ended)
    fail(Errc::corrupt_data, "LightGBM model ends at line {} without 'end of trees'", lines.number());
  if (announced != model.forest.tree_count()) {
    fail(Errc::corrupt_data, "LightGBM model announces {} trees but contains {}", announced,
         model.forest.tree_count());
  }
  check(model.forest);
  return model;
}

LightgbmModel read_lightgbm(const std::filesystem::path& file) {
  try {
    return parse_lightgbm(read_maybe_gzip(file));
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.find(file.string()) != std::string_view::npos) throw;
    fail(error.code(), "{}: {}", file.string(), what);
  }
}

}  // namespace kscout
