// Draws log-uniform sizes with integers only: the same seed gives the same set on every machine.

#include "op/gemm/gemm_sets.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <tuple>

#include <toml++/toml.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "op/conv/conv_sets.h"
#include "op/generator.h"

namespace kscout {

namespace {

/// Draws one size: half of them without a pattern, the other half from shapes that are frequent in workloads.
Sizes draw(Generator& random, std::int64_t low, std::int64_t high) {
  const auto any = [&] { return random.by_octave(low, high); };
  const auto up_to = [&](std::int64_t most) { return random.by_octave(low, std::clamp(most, low, high)); };
  const auto multiple = [&](std::int64_t of) { return std::clamp((any() + of - 1) / of * of, low, high); };
  switch (random.below(10)) {
    case 0:  // few rows: decoding
    case 1:
      return {up_to(16), any(), any()};
    case 2:  // few columns
      return {any(), up_to(16), any()};
    case 3:  // deep: a small C from long dot products
      return {up_to(128), up_to(128), std::max(any(), any())};
    case 4:  // multiples of tile sizes
      return {multiple(16), multiple(64), multiple(64)};
    case 5: {
      const auto side = any();
      return {side, side, side};
    }
    default:
      return {any(), any(), any()};
  }
}

}  // namespace

std::vector<Sizes> drawn_sizes(const ProblemSetRequest& request,
                               const std::function<bool(const Sizes&)>& admits,
                               const std::function<Sizes()>& draw) {
  const std::size_t count = request.count ? request.count : 200;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  std::vector<Sizes> sizes;
  const std::size_t tries = 1000 + 200 * count;
  for (std::size_t i = 0; i < tries && sizes.size() < count; ++i) {
    const Sizes drawn = draw();
    if (admits(drawn) && seen.insert({drawn.m, drawn.n, drawn.k}).second) sizes.push_back(drawn);
  }
  if (sizes.size() < count) {
    fail(Errc::invalid_argument,
         "{}: {} of {} sizes found in {} draws; raise the limits on flops and bytes or ask for fewer",
         request.set, sizes.size(), count, tries);
  }
  return sizes;
}

std::vector<Sizes> random_sizes(const ProblemSetRequest& request,
                                const std::function<bool(const Sizes&)>& admits) {
  if (request.min_size < 1 || request.max_size < request.min_size ||
      request.max_size > (std::int64_t{1} << 40)) {
    fail(Errc::invalid_argument, "random sizes from {} to {}: need 1 <= min <= max <= 2^40", request.min_size,
         request.max_size);
  }
  Generator random(request.seed);
  return drawn_sizes(request, admits, [&] { return draw(random, request.min_size, request.max_size); });
}

std::vector<Sizes> tall_skinny_sizes(const ProblemSetRequest& request,
                                     const std::function<bool(const Sizes&)>& admits) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 20, kLong = 1 << 13, kShortest = 8, kShort = 1 << 10;
  Generator random(request.seed);
  return drawn_sizes(request, admits, [&] {
    Sizes sizes{random.by_octave(kShortest, kShort), random.by_octave(kShortest, kShort),
                random.by_octave(kShortest, kShort)};
    std::int64_t* const sides[] = {&sizes.m, &sizes.n, &sizes.k};
    *sides[random.below(3)] = random.by_octave(kLong, kLongest);
    return sizes;
  });
}

// ---- Products of public language models, from families/llm_models.toml.

namespace {

constexpr std::string_view kFile = "families/llm_models.toml";

struct LayerProduct {
  std::int64_t n, k;
  double calls;
};

std::int64_t number(const toml::table& table, std::string_view key, std::string_view what,
                    std::string_view file = kFile) {
  const auto value = table[key].value<std::int64_t>();
  if (!value || *value < 1) fail(Errc::corrupt_data, "{}: {}: {} must be a number above 0", file, what, key);
  return *value;
}

/// The products of one decoder forward pass: q, k and v are one product, gate and up are one.
std::vector<LayerProduct> described_products(const toml::table& model, std::string_view name) {
  const auto hidden = number(model, "hidden", name), heads = number(model, "heads", name),
             kv_heads = number(model, "kv_heads", name), head_dim = number(model, "head_dim", name),
             intermediate = number(model, "intermediate", name);
  const auto gated = model["gated"].value<bool>();
  if (!gated) fail(Errc::corrupt_data, "{}: model {}: gated must be true or false", kFile, name);
  const auto calls = static_cast<double>(number(model, "layers", name));
  return {{(heads + 2 * kv_heads) * head_dim, hidden, calls},
          {hidden, heads * head_dim, calls},
          {(*gated ? 2 : 1) * intermediate, hidden, calls},
          {hidden, intermediate, calls}};
}

std::vector<LayerProduct> products_of(const toml::table& model, std::string_view name) {
  const auto* const list = model["products"].as_array();
  if (!list) return described_products(model, name);
  std::vector<LayerProduct> products;
  for (const auto& node : *list) {
    const toml::table* const product = node.as_table();
    if (!product) fail(Errc::corrupt_data, "{}: model {}: products must be tables", kFile, name);
    products.push_back({number(*product, "n", name), number(*product, "k", name),
                        static_cast<double>(number(*product, "calls", name))});
  }
  return products;
}

}  // namespace

std::vector<Sizes> llm_sizes(const std::vector<std::string>& models) {
  const toml::table file = toml::parse(embedded_file(kFile), kFile);
  const toml::table& all = *file["models"].as_table();
  std::vector<std::string_view> names;
  for (const auto& [key, node] : all) names.push_back(key.str());
  std::vector<std::string_view> asked(models.begin(), models.end());
  if (asked.empty()) asked = names;
  std::vector<Sizes> sizes;
  for (const std::string_view name : asked) {
    const auto products = products_of(*all[names[index_of_word("model", name, names)]].as_table(), name);
    for (const LayerProduct& product : products) {
      for (const auto& tokens : *file["tokens"].as_array()) {
        sizes.push_back({*tokens.value<std::int64_t>(), product.n, product.k, product.calls});
      }
    }
  }
  return sizes;
}

// ---- Products of training passes, from families/training_gemms.toml.

namespace {

constexpr std::string_view kTrainingFile = "families/training_gemms.toml";

std::vector<std::int64_t> numbers(const toml::array& list, std::string_view what) {
  std::vector<std::int64_t> values;
  for (const auto& node : list) {
    const auto value = node.value<std::int64_t>();
    if (!value || *value < 1)
      fail(Errc::corrupt_data, "{}: {}: numbers above 0 expected", kTrainingFile, what);
    values.push_back(*value);
  }
  return values;
}

/// Adds the three passes of layers.
class Passes {
 public:
  /// `rows` activations of a layer times its n x k weights.
  void add(std::int64_t rows, std::int64_t n, std::int64_t k, double calls) {
    sizes_.push_back({rows, n, k, calls, Layout::rcr});
    sizes_.push_back({rows, k, n, calls, Layout::rrr});
    sizes_.push_back({n, k, rows, calls, Layout::crr});
  }
  std::vector<Sizes> take() { return std::move(sizes_); }

 private:
  std::vector<Sizes> sizes_;
};

void add_convolutions(Passes& passes, const std::vector<std::int64_t>& images) {
  for (ConvProblem conv : convs_of_networks(DType::fp32, {})) {
    if (conv.n != 1 || conv.g != 1) continue;
    for (const std::int64_t n : images) {
      conv.n = n;
      const ImplicitGemm product = product_of(conv);
      passes.add(product.m, product.n, product.k, conv.weight);
    }
  }
}

}  // namespace

std::vector<Sizes> training_sizes() {
  const toml::table file = toml::parse(embedded_file(kTrainingFile), kTrainingFile);
  const auto rows_of = [&](std::string_view key) { return numbers(*file[key].as_array(), key); };
  const auto tokens = rows_of("tokens"), images = rows_of("images"), samples = rows_of("samples");
  Passes passes;
  for (const Sizes& layer : llm_sizes({})) {
    if (layer.m != 1) continue;  // each layer once; the rows are those of training
    for (const std::int64_t rows : tokens) passes.add(rows, layer.n, layer.k, layer.weight);
  }
  for (const auto& node : *file["heads"].as_array()) {
    const toml::table& head = *node.as_table();
    for (const std::int64_t rows : tokens)
      passes.add(rows, number(head, "n", "heads", kTrainingFile), number(head, "k", "heads", kTrainingFile),
                 1);
  }
  for (const auto& [name, node] : *file["experts"].as_table()) {
    const toml::table& model = *node.as_table();
    const auto of = [&model, where = name.str()](std::string_view key) {
      return number(model, key, where, kTrainingFile);
    };
    const std::int64_t hidden = of("hidden"), inner = of("intermediate"), experts = of("experts");
    const auto calls = static_cast<double>(of("layers") * experts);
    for (const std::int64_t all : tokens) {
      const std::int64_t rows = std::max<std::int64_t>(1, all * of("chosen") / experts);
      passes.add(rows, 2 * inner, hidden, calls);
      passes.add(rows, hidden, inner, calls);
    }
  }
  for (const auto& [name, node] : *file["vision"].as_table()) {
    const toml::table& model = *node.as_table();
    const auto of = [&model, where = name.str()](std::string_view key) {
      return number(model, key, where, kTrainingFile);
    };
    const std::int64_t hidden = of("hidden"), inner = of("intermediate"), patches = of("patches");
    const auto calls = static_cast<double>(of("layers"));
    for (const std::int64_t n : images) {
      passes.add(n * patches, 3 * hidden, hidden, calls);
      passes.add(n * patches, hidden, hidden, calls);
      passes.add(n * patches, inner, hidden, calls);
      passes.add(n * patches, hidden, inner, calls);
    }
  }
  const auto add_stacks = [&](std::string_view key, const std::vector<std::int64_t>& all_rows) {
    for (const auto& [name, node] : *file[key].as_table()) {
      for (const auto& stack : *node.as_array()) {
        const auto widths = numbers(*stack.as_array(), name.str());
        for (std::size_t i = 1; i < widths.size(); ++i) {
          for (const std::int64_t rows : all_rows) passes.add(rows, widths[i], widths[i - 1], 1);
        }
      }
    }
  };
  add_stacks("recommendation", samples);
  add_stacks("classifiers", images);
  add_convolutions(passes, images);
  return passes.take();
}

std::vector<Sizes> odd_sizes() {
  constexpr std::string_view kOddFile = "families/odd_gemms.toml";
  Passes passes;
  for (const auto& [name, node] : toml::parse(embedded_file(kOddFile), kOddFile)) {
    const toml::table& group = *node.as_table();
    for (const auto& layer : *group["layers"].as_array()) {
      const auto of = [table = layer.as_table(), where = name.str(), kOddFile](std::string_view key) {
        return number(*table, key, where, kOddFile);
      };
      for (const auto& rows : *group["rows"].as_array())
        passes.add(rows.value<std::int64_t>().value(), of("n"), of("k"), 1);
    }
  }
  return passes.take();
}

// ---- The GEMM sets of the public CK Tile heuristics: benchmark (25 sizes), wide coverage (706), edge cases
// (546).

namespace {

using Values = std::vector<std::int64_t>;

/// Distinct sizes, sorted by m, n, k.
class SizeSet {
 public:
  void add(std::int64_t m, std::int64_t n, std::int64_t k) { sizes_.insert({m, n, k}); }
  void product(const Values& ms, const Values& ns, const Values& ks) {
    for (const auto m : ms) {
      for (const auto n : ns) {
        for (const auto k : ks) add(m, n, k);
      }
    }
  }
  void cubes(const Values& sides) {
    for (const auto side : sides) add(side, side, side);
  }
  std::vector<Sizes> list() const {
    std::vector<Sizes> sizes;
    for (const auto& [m, n, k] : sizes_) sizes.push_back({m, n, k});
    return sizes;
  }

 private:
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> sizes_;
};

Values powers_of_two(int first, int last) {
  Values values;
  for (int e = first; e <= last; ++e) values.push_back(std::int64_t{1} << e);
  return values;
}

/// Products of language models that the wide set adds to its grids.
void add_llm(SizeSet& set) {
  constexpr std::int64_t kSizes[][3] = {{1, 1536, 7168},  {1, 4608, 7168},  {1, 7168, 2048}, {1, 7168, 2304},
                                        {1, 7168, 256},   {1, 576, 7168},   {1, 512, 7168},  {1, 3072, 1536},
                                        {1, 28672, 8192}, {128, 128, 64},   {128, 128, 128}, {256, 256, 64},
                                        {512, 512, 64},   {1024, 1024, 64}, {2048, 2048, 64}};
  for (const auto& [m, n, k] : kSizes) set.add(m, n, k);
  set.product({1, 32, 128}, {4096}, {4096});
  set.product({1, 32, 128}, {8192}, {8192});
  set.product({1, 32}, {4096}, {11008});
  set.product({1, 32}, {11008}, {4096});
  set.product({1, 32}, {8192}, {28672});
}

}  // namespace

std::vector<Sizes> ck_benchmark_sizes() {
  std::vector<Sizes> sizes;
  for (const auto side : powers_of_two(6, 13)) sizes.push_back({side, side, side});
  for (const std::int64_t m : {1, 8, 32, 128}) sizes.push_back({m, 4096, 4096});
  constexpr Sizes kRest[] = {{1, 4096, 11008},   {1, 11008, 4096},   {32, 4096, 11008},  {32, 11008, 4096},
                             {1, 8192, 8192},    {32, 8192, 8192},   {1, 8192, 28672},   {32, 8192, 28672},
                             {1024, 4096, 1024}, {4096, 1024, 4096}, {2048, 8192, 2048}, {256, 256, 8192},
                             {8192, 8192, 256}};
  sizes.insert(sizes.end(), std::begin(kRest), std::end(kRest));
  return sizes;
}

std::vector<Sizes> ck_wide_sizes() {
  SizeSet set;
  // Decoding of one token, then of a few.
  set.product({1}, {512, 1024, 1536, 2048, 3072, 4096, 4608, 7168, 8192, 11008, 14336, 28672},
              {256, 512, 1024, 1536, 2048, 2304, 4096, 7168, 8192});
  set.product({2, 4, 8, 16}, {512, 1536, 4096, 7168}, {256, 1024, 4096, 7168});
  set.product({32, 48, 64, 96, 128}, {512, 1536, 4096, 7168, 8192}, {256, 512, 2048, 4096, 7168});
  // Prefill.
  set.product({256, 384, 512, 768, 1024, 1536, 2048}, {512, 1536, 4096, 7168}, {256, 1024, 2048, 4096, 7168});
  set.product({4096, 8192, 12288, 16384, 20480}, {512, 1536, 4096, 7168}, {256, 1024, 2048, 7168});
  set.cubes(powers_of_two(5, 13));
  // Wide, tall, deep and shallow outlines.
  set.product({1, 4, 16, 64}, {8192, 16384, 28672}, {1024, 4096, 8192});
  set.product({4096, 8192, 16384}, {32, 64, 128, 256}, {1024, 4096});
  set.product({16, 64, 256}, {16, 64, 256}, {4096, 8192, 16384, 32768});
  set.product({1024, 4096, 8192}, {1024, 4096, 8192}, {16, 32, 64, 128});
  // Sizes that are no multiple of any tile.
  set.cubes({17, 31, 37, 127, 251, 509, 1021, 2039, 4093});
  for (const std::int64_t prime : {17, 31, 37, 127, 251}) {
    set.add(prime, 4096, 4096);
    set.add(4096, prime, 4096);
    set.add(4096, 4096, prime);
  }
  add_llm(set);
  const Values multiples = {48, 96, 192, 384, 576, 768, 1152, 1536, 2304, 3072, 4608, 6144};
  set.cubes(multiples);
  set.product(multiples, {4096}, {4096});
  return set.list();
}

std::vector<Sizes> ck_edge_sizes() {
  SizeSet set;
  const Values doubling = powers_of_two(0, 13);
  const Values extents = {1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 7168, 8192};
  set.product(doubling, {1}, extents);
  set.product(doubling, extents, {1});
  const Values line = {1, 16, 64, 256, 1024, 4096, 8192};
  set.product(line, {1}, {1});
  set.product({1}, line, {1});
  set.product({1}, {1}, line);
  const Values ordinary = {64, 256, 1024, 4096}, tiny = {2, 3, 4, 7, 8, 15, 16};
  set.product(ordinary, tiny, ordinary);
  set.product(ordinary, ordinary, tiny);
  return set.list();
}

std::vector<Sizes> smoke_sizes() {
  return {{1, 256, 256}, {4, 512, 128},   {16, 256, 512}, {37, 41, 43},    {64, 64, 64},
          {96, 192, 48}, {128, 128, 128}, {256, 8, 256},  {200, 300, 100}, {256, 256, 256}};
}

}  // namespace kscout
