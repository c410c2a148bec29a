// Compiles the output of `kscout export` as a user would and compares it with the library bit for bit.
#include <bit>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <kscout/error.h>

#include "core/files.h"
#include "export/cpp_source.h"
#include "export/header.h"
#include "lightgbm/lightgbm.h"
#include "op/conv/conv_sets.h"
#include "support/expect_error.h"
#include "support/large_model.h"
#include "support/paths.h"
#include "support/random_forest.h"
#include "support/random_shortlist.h"
#include "support/share.h"
#include "support/temporary_folder.h"
#include "support/toy_model.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

class ExportTest : public testing::Test {
 protected:
  /// Builds `main` against `header` with the flags that the header promises to compile under, runs it on
  /// `input`; its output.
  std::string run(const std::string& header, const std::string& main, const std::string& input) {
    write_file_atomically(folder_ / "exported.h", header);
    write_file_atomically(folder_ / "main.cpp", main);
    write_file_atomically(folder_ / "input", input);
    const std::string compile = std::string(paths::cxx) +
                                " -std=c++17 -Wall -Wextra -Wpedantic -Werror -ffp-contract=off -O1 -o " +
                                (folder_ / "main").string() + " " + (folder_ / "main.cpp").string() + " 2> " +
                                (folder_ / "errors").string();
    EXPECT_EQ(std::system(compile.c_str()), 0) << read_file(folder_ / "errors").substr(0, 4000);
    const std::string start = (folder_ / "main").string() + " < " + (folder_ / "input").string() + " > " +
                              (folder_ / "output").string();
    EXPECT_EQ(std::system(start.c_str()), 0);
    return read_file(folder_ / "output");
  }
  const test::TemporaryFolder folder_;
};

/// Fields of a problem in order, as numbers.
template <class P>
std::string as_numbers(const std::vector<P>& problems) {
  std::string text;
  for (const P& p : problems) {
    for_each_field<P>([&](const auto& field) {
      const auto& value = p.*field.member;
      if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>) {
        text += fmt::format("{} ", value);
      } else {
        text += fmt::format("{} ", static_cast<std::int64_t>(value));
      }
    });
    text += '\n';
  }
  return text;
}

/// Reads as_numbers() into exported problems; the body prints lines about `p`.
template <class P = GemmProblem>
std::string program(std::string_view body) {
  std::string read;
  for_each_field<P>([&](const auto& field) {
    using V = std::remove_cvref_t<decltype(std::declval<P>().*field.member)>;
    const bool real = std::is_floating_point_v<V>;
    read += fmt::format(
        "    {{ {1} number; if (std::scanf(\"{2}\", &number) != 1) return 0; p.{0} = "
        "static_cast<decltype(p.{0})>(number); }}\n",
        field.name, real ? "double" : "long long", real ? "%lf" : "%lld");
  });
  // No streams: their header would take a large part of the compile time.
  return "#include \"exported.h\"\n#include <cstdio>\n#include <cstring>\n#include <vector>\n"
         "static unsigned long long bits(double x) { unsigned long long b; std::memcpy(&b, &x, 8); return b; "
         "}\n"
         "int main() {\n  for (;;) {\n    m::Problem p;\n" +
         read + std::string(body) + "  }\n}\n";
}

constexpr std::string_view kPrintChoice = R"(
    const m::Choice c = m::select(p);
    std::printf("%d %llx %llx %llx %s", c.config, bits(c.score), bits(c.time_us), bits(c.confidence), c.name ? c.name : "-");
    if (const m::Family* f = m::family_of(p)) {
      std::vector<double> scores(static_cast<std::size_t>(f->size));
      m::score(p, *f, scores.data());
      for (double s : scores) std::printf(" %llx", bits(s));
    }
    std::printf("\n");
)";

/// A model's choice, with its confidence.
struct Chosen {
  std::size_t config;
  double score, time_us, confidence;
};

std::optional<Chosen> library_choice(const Model& model, Target target, ProblemRef p,
                                     const std::vector<double>& scores) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!std::isinf(scores[i])) order.push_back(i);
  }
  if (order.empty()) return std::nullopt;
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return scores[i]; });
  const auto tflops = model.predicted_tflops(p, target, scores);
  std::vector<double> best;
  for (std::size_t i = 0; i < std::min(order.size(), Confidence::top); ++i) best.push_back(tflops[order[i]]);
  const CompiledFamily& family = *model.compiled(signature_of(p));
  Chosen chosen{order[0], scores[order[0]], time_us_of(p, tflops[order[0]]),
                model.confidence(family.family(), p, target, best)};
  const auto suggestion = family.first_suggestion();
  if (suggestion && *suggestion != order[0] &&
      model.guarded(family.family(), p, target, std::log(tflops[order[0]] / tflops[*suggestion]))) {
    chosen.config = *suggestion;
    chosen.confidence = std::numeric_limits<double>::quiet_NaN();
  }
  return chosen;
}

/// The same line by the library.
std::string library_line(const Model& model, Target target, ProblemRef p) {
  const Family* family = model.family(signature_of(p));
  const bool twin = family && model.position(*family) >= model.data().families.size();
  if (twin) family = nullptr;  // headers have the trained families
  std::vector<double> scores(family ? family->configs.size() : 0);
  if (family) model.score(p, target, scores);
  std::string line = fmt::format("-1 {0:x} {0:x} {0:x} -", bits(std::numeric_limits<double>::quiet_NaN()));
  if (const auto chosen = library_choice(model, target, p, scores)) {
    line = fmt::format("{} {:x} {:x} {:x} {}", chosen->config, bits(chosen->score), bits(chosen->time_us),
                       bits(chosen->confidence), family->name(chosen->config));
  }
  for (const double score : scores) line += fmt::format(" {:x}", bits(score));
  return line;
}

template <class P>
void expect_equal_lines(const std::string& output, const Model& model, Target target,
                        const std::vector<P>& problems) {
  std::istringstream lines(output);
  std::string line;
  std::size_t chosen = 0;
  for (const P& p : problems) {
    ASSERT_TRUE(std::getline(lines, line)) << print(p);
    chosen += !line.starts_with("-1");
    ASSERT_EQ(line, library_line(model, target, p)) << print(p) << " by " << word(target);
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
  EXPECT_GT(chosen, problems.size() / 2);
  EXPECT_LT(chosen, problems.size()) << "some problems are of types that no model has";
}

/// Ordinary sizes and awkward ones, signatures that a model has and some that it has not.
std::vector<GemmProblem> problems_of(const std::vector<Signature>& signatures, std::size_t count) {
  std::mt19937_64 rng(count);
  const auto size = [&]() -> std::int64_t {
    constexpr std::int64_t kAwkward[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 4096, 1 << 20, 100000007};
    if (rng() % 4 == 0) return kAwkward[rng() % std::size(kAwkward)];
    return static_cast<std::int64_t>(std::exp2(static_cast<double>(rng() % 1300) / 100.0));
  };
  std::vector<GemmProblem> problems;
  while (problems.size() < count) {
    GemmProblem p = make_gemm(size(), size(), size());
    const Signature& s = signatures[rng() % signatures.size()];
    p.dtype_a = s.dtype_a, p.dtype_b = s.dtype_b, p.dtype_c = s.dtype_c, p.dtype_acc = s.dtype_acc;
    if (rng() % 20 == 0) p.dtype_a = p.dtype_b = DType::fp64;
    p.layout = rng() % 20 == 0 ? Layout::ccr : s.layout;
    p.epilogue = rng() % 20 == 0 ? Epilogue::gelu : s.epilogue;
    p.accumulate = rng() % 5 == 0;
    if (rng() % 8 == 0) p.batch = 1 + static_cast<std::int64_t>(rng() % 9);
    if (rng() % 8 == 0) p.lda = leading_dimensions(p).a + static_cast<std::int64_t>(rng() % 999);
    if (rng() % 8 == 0) p.ldb = leading_dimensions(p).b + 1;
    if (rng() % 8 == 0) p.split_k = static_cast<std::int64_t>(rng() % 4);
    problems.push_back(p);
  }
  return problems;
}

/// Random convolutions and those at the edges, in all directions: a header is for one. Some have types that
/// no model has, or the layout of another memory order.
std::vector<ConvProblem> convs_of(const Model& model, std::size_t count) {
  const Signature& s = model.data().families.front().signature;
  std::vector<ConvProblem> problems =
      make_conv_set({.set = "conv_random", .dtype = s.dtype_a, .count = count, .seed = count});
  const auto edges = make_conv_set("conv_edge", s.dtype_a);
  for (std::size_t i = 0; i < edges.size(); i += 1 + 2 * edges.size() / count) problems.push_back(edges[i]);
  std::mt19937_64 rng(count);
  for (ConvProblem& p : problems) {
    p.op = rng() % 12 == 0 ? kDirections[rng() % 3] : s.op;
    if (rng() % 20 == 0) p.layout = Layout::ngchw;
    if (rng() % 20 == 0) p.dtype_wei = DType::fp64;
    if (rng() % 8 == 0) p.split_k = static_cast<std::int64_t>(rng() % 4);
  }
  return problems;
}

/// A model of provider native's convolutions with random forests, a confidence and, for more than 64 configs,
/// a shortlist.
Model conv_model(Op op, const std::string& rules) {
  ModelData data;
  data.schema = std::make_shared<Schema>(Schema::find("conv_cpu").for_op(op));
  for (const Layout layout : {Layout::nhwgc, Layout::ndhwgc}) {
    data.families.push_back(enumerate({.provider = "native",
                                       .signature = signature_of(make_conv(op, DType::fp32, layout)),
                                       .device = device_preset("epyc-7763"),
                                       .rules = rules,
                                       .filter = {}}));
  }
  toy::RandomForestOptions options;
  options.features = static_cast<std::uint32_t>(data.schema->size());
  options.trees = 30;
  Forest forest = toy::RandomForest(options, static_cast<std::uint64_t>(op)).forest();
  for (double& leaf : forest.leaf_value) leaf = std::clamp(leaf, -1.0, 1.0);
  data.targets = {{Target::relative, std::move(forest), 0.02, 0.9}};
  data.best_features = {0, 1, 2};
  data.best_tflops = toy::RandomForest({.features = 3, .trees = 5, .categorical = 0}, 1).forest();
  for (double& leaf : data.best_tflops.leaf_value) leaf = std::clamp(leaf, -3.0, 3.0);
  if (rules != "tiny") data.shortlist = toy::random_shortlist(data.families[0].configs, 3);
  Confidence confidence;
  confidence.bias = -0.3;
  confidence.weight = {0.3, -0.1, 0.2, -0.25, 0.125, 0.15, 0.5, 0};
  confidence.low = {2, 2, 2, 0};
  confidence.high = {11, 11, 11, 2};
  data.confidence = confidence;
  return Model(std::move(data));
}

std::vector<Signature> signatures_of(const Model& model) {
  std::vector<Signature> signatures;
  for (const Family& family : model.data().families) signatures.push_back(family.signature);
  return signatures;
}

/// A model over the toy family whose forests no training would give.
Model random_model(std::uint64_t seed) {
  ModelData data = toy::model().data();
  toy::RandomForestOptions options;
  options.features = static_cast<std::uint32_t>(data.schema->size());
  options.average = seed % 2 == 1;
  data.targets.clear();
  for (const Target target :
       {Target::latency, Target::bandwidth, Target::rank, Target::relative, Target::tflops}) {
    Forest forest = toy::RandomForest(options, seed + data.targets.size()).forest();
    for (double& leaf : forest.leaf_value) leaf = std::clamp(leaf, -3.0, 3.0);
    data.targets.push_back({target, std::move(forest), 0.125, 0.75});
  }
  return Model(std::move(data));
}

/// The toy model under CK Tile's schema: logarithms, axes of configs, requirements of the problem,
/// categories.
Model ck_model() {
  ModelData data;
  data.schema = std::make_shared<Schema>(Schema::find("ck_gemm_72"));
  data.families = {enumerate({.provider = "ck_tile",
                              .signature = signature_of(make_gemm(1, 1, 1, DType::bf16)),
                              .device = device_preset("gfx950"),
                              .rules = rule_set_names("ck_tile", Op::gemm).front(),
                              .filter = {}})};
  toy::RandomForestOptions options;
  options.features = static_cast<std::uint32_t>(data.schema->size());
  data.targets = {{Target::tflops, toy::RandomForest(options, 5).forest(), 0, 1}};
  return Model(std::move(data));
}

TEST_F(ExportTest, HeaderChoosesAsTheToyModelDoes) {
  const Model model = toy::model();
  const auto problems = problems_of(signatures_of(model), 3000);
  for (const ModelTarget& target : model.data().targets) {
    const std::string header = model_header(model, {"m", target.target});
    expect_equal_lines(run(header, program(kPrintChoice), as_numbers(problems)), model, target.target,
                       problems);
  }
}

/// The toy model with a confidence.
Model unsure_model(std::vector<double> family_bias) {
  ModelData data = toy::model().data();
  Confidence confidence;
  confidence.bias = -0.3;
  confidence.family_bias = std::move(family_bias);
  confidence.weight = {0.3, -0.1, 0.2, -0.25, 0.125, 0.15, 0.5, 0};
  confidence.low = {2, 2, 2, 0};
  confidence.high = {11, 11, 11, 2};
  data.confidence = confidence;
  return Model(std::move(data));
}

TEST_F(ExportTest, HeaderIsAsSureAsTheModel) {
  for (const std::vector<double>& family_bias : {std::vector<double>{}, std::vector<double>{0.7, -0.4}}) {
    const Model model = unsure_model(family_bias);
    const auto problems = problems_of(signatures_of(model), 3000);
    const std::string header = model_header(model, {"m", {}});
    expect_equal_lines(run(header, program(kPrintChoice), as_numbers(problems)), model, Target::relative,
                       problems);
  }
}

TEST_F(ExportTest, HeaderHasTheGuardOfTheModel) {
  ModelData data = unsure_model({}).data();
  data.confidence->weight.back() = -0.4;
  for (Family& family : data.families) family.traits[7].suggestion = 1;
  data.region = Region{{{{96, 96, 96, 0}, {40, 100, 64, 0}}, {{64, 64, 64, 0}}}};
  data.guard = Guard{.distance = 3, .lead = 0.3};
  const Model model{std::move(data)};
  const auto problems = problems_of(signatures_of(model), 3000);
  const std::string output = run(model_header(model, {"m", {}}), program(kPrintChoice), as_numbers(problems));
  expect_equal_lines(output, model, Target::relative, problems);
  const auto guarded = static_cast<std::size_t>(std::ranges::count_if(problems, [&](const GemmProblem& p) {
    const Family* const family = model.family(signature_of(p));
    return family && model.distance(*family, p) > 3;
  }));
  EXPECT_GT(guarded, 100u);
  EXPECT_LT(guarded, problems.size() - 100);
}

TEST(Export, SelectorIsAsSureAsTheModel) {
  const test::TemporaryFolder folder;
  const Model model = unsure_model({0.7, -0.4});
  write_file_atomically(folder / "model.ksf", model.bytes());
  const Selector selector = Selector::load(folder / "model.ksf");
  std::array<std::size_t, 2> compared{};
  for (const GemmProblem& p : problems_of(signatures_of(model), 300)) {
    const Family* const family = model.family(signature_of(p));
    if (!family) continue;
    std::vector<double> scores(family->configs.size());
    model.score(p, scores);
    const auto chosen = library_choice(model, Target::relative, p, scores);
    if (!chosen) continue;
    const Choice choice = selector.select(p);
    EXPECT_EQ(bits(choice.confidence), bits(chosen->confidence)) << print(p);
    ++compared[model.position(*family)];
  }
  EXPECT_GT(compared[0], 20u);
  EXPECT_GT(compared[1], 20u);
}

TEST_F(ExportTest, HeaderCutsTheSameShortlist) {
  ModelData data = toy::large_model(6, 9).data();
  ConfigTable with_output(data.families[0].configs.space());
  for (std::size_t i = 0; i < data.families[0].configs.size(); i += 1 + i % 2)
    with_output.push_back(data.families[0].configs[i]);
  data.shortlist = toy::random_shortlist(with_output, 11);
  data.families[0].default_config = 40;
  const Model model{std::move(data)};
  const auto problems = problems_of(signatures_of(model), test::share_of(400));
  const std::string header = model_header(model, {"m", {}});
  expect_equal_lines(run(header, program(kPrintChoice), as_numbers(problems)), model, model.default_target(),
                     problems);
}

TEST_F(ExportTest, HeaderChoosesAsRandomForestsDo) {
  for (const std::uint64_t seed : {1, 2}) {
    const Model model = random_model(seed);
    const auto problems = problems_of(signatures_of(model), test::share_of(1000));
    for (const ModelTarget& target : model.data().targets) {
      const std::string header = model_header(model, {"m", target.target});
      expect_equal_lines(run(header, program(kPrintChoice), as_numbers(problems)), model, target.target,
                         problems);
    }
  }
}

TEST_F(ExportTest, HeaderComputesLegacySchemas) {
  const Model model = ck_model();
  auto problems = problems_of(signatures_of(model), 400);
  for (std::size_t i = 0; i < problems.size();
       ++i) {  // most of them whole tiles: the rules refuse what is not
    GemmProblem& p = problems[i];
    if (i % 8 == 0) continue;
    p.batch = 1;
    p.lda = p.ldb = 0;
    for (std::int64_t GemmProblem::*size : {&GemmProblem::m, &GemmProblem::n, &GemmProblem::k}) {
      p.*size = (p.*size / 1024 + 1) * 1024;
    }
  }
  expect_equal_lines(run(model_header(model, {"m", {}}), program(kPrintChoice), as_numbers(problems)), model,
                     Target::tflops, problems);
}

TEST_F(ExportTest, HeaderOfConvolutionsChoosesAsTheModelDoes) {
  for (const Op op : kDirections) {
    for (const char* const rules : {"tiny", "default"}) {
      const Model model = conv_model(op, rules);
      ASSERT_EQ(model.data().families[0].configs.size() > kNoShortlistFamily, rules != std::string("tiny"));
      const auto problems = convs_of(model, test::share_of(600));
      expect_equal_lines(
          run(model_header(model, {"m", {}}), program<ConvProblem>(kPrintChoice), as_numbers(problems)),
          model, Target::relative, problems);
    }
  }
}

TEST_F(ExportTest, HeaderChoosesAsTheShippedModelsDo) {
  constexpr std::size_t kCount = 100;  // problems of each model
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(paths::in_repository("models"))) {
    if (fs::exists(entry.path() / "model.ksf")) folders.push_back(entry.path());
  }
  EXPECT_FALSE(folders.empty());
  std::ranges::sort(folders);
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const Model model = Model::load(folders[i]);
    if (model.data().schema->data().op == Op::grouped_gemm) {
      test::expect_error(Errc::unsupported, "cannot hold grouped GEMMs", [&] {
        model_header(model, {"m", {}});
      });
      continue;
    }
    if (!test::in_share(i)) {  // the compiler and its program are slow, and nothing checks their memory
      EXPECT_FALSE(model_header(model, {"m", {}}).empty());
      continue;
    }
    if (is_direction(model.data().schema->data().op)) {
      const auto convs = convs_of(model, kCount);
      expect_equal_lines(
          run(model_header(model, {"m", {}}), program<ConvProblem>(kPrintChoice), as_numbers(convs)), model,
          model.default_target(), convs);
      continue;
    }
    const auto problems = problems_of(signatures_of(model), kCount);
    const std::string header = model_header(model, {"m", {}});
    expect_equal_lines(run(header, program(kPrintChoice), as_numbers(problems)), model,
                       model.default_target(), problems);
  }
}

TEST_F(ExportTest, ShapesAreFoundAndOthersAreNot) {
  const Model model = toy::model();
  fs::create_directories(folder_ / "model");
  write_file_atomically(folder_ / "model" / "model.ksf", model.bytes());
  const Selector selector = Selector::load(folder_ / "model");
  std::vector<ShapeChoice> choices;
  std::vector<GemmProblem> problems = toy::problems(60, 4);
  for (std::size_t i = 0; i < 40; ++i) choices.push_back({problems[i], selector.select(problems[i])});
  choices.push_back({problems[7], choices[8].choice});  // given twice: the first one counts
  GemmProblem strided = problems[3];
  strided.lda = leading_dimensions(strided).a + 1;
  problems.push_back(strided);

  const std::string output = run(shapes_header(choices, "m"), program(R"(
    const m::Choice c = m::find(p);
    std::printf("%s %d %llx", c.name ? c.name : "-", c.axes ? static_cast<int>(c.axes[0]) : -1, bits(c.time_us));
    for (int i = 0; c.axes && i < m::axis_count; ++i) std::printf(" %d", static_cast<int>(c.axes[i]));
    std::printf("\n");
)"),
                                 as_numbers(problems));
  std::istringstream lines(output);
  std::string line;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    std::string wanted = fmt::format("- -1 {:x}", bits(std::numeric_limits<double>::quiet_NaN()));
    if (i < 40) {
      const Choice& choice = choices[i].choice;
      const KernelConfig& config = choice.config;
      wanted =
          fmt::format("{} {} {:x}", Selector::name(problems[i], choice), config[0], bits(choice.time_us));
      for (std::size_t a = 0; a < config.space->axes.size(); ++a) wanted += fmt::format(" {}", config[a]);
    }
    EXPECT_EQ(line, wanted) << print(problems[i]);
  }
  EXPECT_THROW(shapes_header({}, "m"), Error);
}

TEST_F(ExportTest, ShapesOfConvolutionsAreFoundAndOthersAreNot) {
  for (const Op op : kDirections) {
    const Model model = conv_model(op, "tiny");
    fs::create_directories(folder_ / "model");
    write_file_atomically(folder_ / "model" / "model.ksf", model.bytes());
    const Selector selector = Selector::load(folder_ / "model");
    auto problems = make_conv_set({.set = "conv_random", .count = 60, .seed = 4});
    std::vector<ShapeChoice> choices;
    for (ConvProblem& p : problems) {
      p = in_direction(p, op);
      if (choices.size() < 40) choices.push_back({p, selector.select(p)});
    }
    problems.push_back(problems[3]);  // another direction, padding and stride
    problems.back() = in_direction(problems[3], op == Op::conv_fwd ? Op::conv_bwd_data : Op::conv_fwd);
    problems.push_back(problems[3]);
    problems.back().left_pad_w += 1;
    const std::string output = run(shapes_header(choices, "m"), program<ConvProblem>(R"(
    const m::Choice c = m::find(p);
    std::printf("%s %llx\n", c.name ? c.name : "-", bits(c.time_us));
)"),
                                   as_numbers(problems));
    std::istringstream lines(output);
    std::string line;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      ASSERT_TRUE(std::getline(lines, line));
      std::string wanted = fmt::format("- {:x}", bits(std::numeric_limits<double>::quiet_NaN()));
      if (i < 40) {
        const Choice& choice = choices[i].choice;
        wanted = fmt::format("{} {:x}", Selector::name(problems[i], choice), bits(choice.time_us));
      }
      EXPECT_EQ(line, wanted) << print(problems[i]);
    }
    choices.push_back({make_gemm(8, 8, 8), choices.front().choice});
    EXPECT_THROW(shapes_header(choices, "m"), Error);
  }
}

TEST(Export, JsonHoldsTheWholeModel) {
  const Model model = toy::model();
  const auto json = nlohmann::json::parse(model_json(model));
  EXPECT_EQ(json["families"].size(), 2u);
  EXPECT_EQ(json["families"][0]["configs"].size(), 12u);
  EXPECT_EQ(json["families"][0]["configs"][1]["axes"]["nr"], 16);
  EXPECT_EQ(json["families"][0]["serves"][0]["admits"], "c.nr <= 16 or p.n >= 8");
  EXPECT_EQ(json["schema"]["features"].size(), model.data().schema->size());
  EXPECT_EQ(json["targets"][0]["forest"]["leaf_value"].get<std::vector<double>>(),
            model.data().targets[0].forest.leaf_value);
  EXPECT_EQ(json["best_tflops"]["features"].size(), 3u);
  EXPECT_TRUE(json["confidence"].is_null());
  EXPECT_TRUE(json["region"].is_null() && json["lead_guard"].is_null());
  const auto sure = nlohmann::json::parse(model_json(unsure_model({0.7, -0.4})));
  EXPECT_EQ(sure["confidence"]["family_bias"].get<std::vector<double>>(), (std::vector<double>{0.7, -0.4}));
}

TEST(Export, LightgbmTextReadsBackAsTheForest) {
  const Model model = toy::model();
  const LightgbmModel text = parse_lightgbm(model_lightgbm(model, Target::tflops));
  EXPECT_EQ(text.feature_names.front(), "m");
  for (const double x : {0.0, 1.0, 7.0, 40.0, 1000.0}) {
    const std::vector<double> row(model.data().schema->size(), x);
    EXPECT_EQ(text.forest.predict(row), model.data().targets[1].forest.predict(row));
  }
}

TEST(Export, WrongNamesAreErrors) {
  const Model model = toy::model();
  for (const char* const name : {"7up", "a b", "a:b", "a::", "::a", "a-b"}) {
    EXPECT_THROW(model_header(model, {name, {}}), Error) << name;
  }
  EXPECT_NE(model_header(model, {"", {}}).find("namespace gemm_fp32_epyc_7763 {"), std::string::npos);
  for (const std::string name : {"int", "a::class", "std", "a__b", "co_await", "linux"})
    expect_error(Errc::invalid_argument, "cannot be a C++ namespace", [&] {
      model_header(model, {name, {}});
    });
  EXPECT_NE(model_header(model, {"a::b2", {}}).find("namespace a::b2 {"), std::string::npos);
  try {
    model_header(model, {"m", Target::rank});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("it has relative, tflops"), std::string_view::npos);
  }
}

TEST(Export, NumbersReadBack) {
  std::mt19937_64 rng(3);
  for (int i = 0; i < 10000; ++i) {
    const double x = std::bit_cast<double>(rng());
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(bits(std::strtod(cpp_number(x).c_str(), nullptr)), bits(x)) << cpp_number(x);
  }
  EXPECT_EQ(cpp_number(3), "3.0");
  EXPECT_EQ(cpp_number(-0.0), "-0.0");
  EXPECT_EQ(cpp_text("a\"b\\\n"), "\"a\\\"b\\\\\\012\"");
}

}  // namespace
}  // namespace kscout
