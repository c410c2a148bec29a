// Draws log-uniform sizes with integers only: the same seed gives the same set on every machine.

#include "op/gemm/gemm_sets.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <tuple>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "core/toml_reader.h"
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
  Generator random(request.seed_of(Op::gemm));
  return drawn_sizes(request, admits, [&] { return draw(random, request.min_size, request.max_size); });
}

std::vector<Sizes> tall_skinny_sizes(const ProblemSetRequest& request,
                                     const std::function<bool(const Sizes&)>& admits) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 20, kLong = 1 << 13, kShortest = 8, kShort = 1 << 10;
  Generator random(request.seed_of(Op::gemm));
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

std::vector<Sizes> llm_sizes(const std::vector<std::string>& models, std::string_view of) {
  const toml::table file = parse_toml(embedded_file(kFile), kFile);
  const toml::table& all = *file[of].as_table();
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

std::vector<std::int64_t> numbers(const toml::array& list, std::string_view what,
                                  std::string_view file = kTrainingFile) {
  std::vector<std::int64_t> values;
  for (const auto& node : list) {
    const auto value = node.value<std::int64_t>();
    if (!value || *value < 1) fail(Errc::corrupt_data, "{}: {}: numbers above 0 expected", file, what);
    values.push_back(*value);
  }
  return values;
}

/// Adds the three passes of layers.
class Passes {
 public:
  /// `rows` activations of a layer times its n x k weights; `batch` such layers.
  void add(std::int64_t rows, std::int64_t n, std::int64_t k, double calls, std::int64_t batch = 1) {
    sizes_.push_back({rows, n, k, calls, Layout::rcr, batch});
    sizes_.push_back({rows, k, n, calls, Layout::rrr, batch});
    sizes_.push_back({n, k, rows, calls, Layout::crr, batch});
  }
  /// One product.
  void add_one(const Sizes& sizes) { sizes_.push_back(sizes); }
  std::vector<Sizes> take() { return std::move(sizes_); }

 private:
  std::vector<Sizes> sizes_;
};

struct Experts {
  std::int64_t hidden, inner, count, chosen;
  double layers;
};

std::vector<Experts> experts_of(const toml::table& training) {
  std::vector<Experts> all;
  for (const auto& [name, node] : *training["experts"].as_table()) {
    const auto of = [model = node.as_table(), where = name.str()](std::string_view key) {
      return number(*model, key, where, kTrainingFile);
    };
    all.push_back(
        {of("hidden"), of("intermediate"), of("experts"), of("chosen"), static_cast<double>(of("layers"))});
  }
  return all;
}

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
  const toml::table file = parse_toml(embedded_file(kTrainingFile), kTrainingFile);
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
  for (const Experts& experts : experts_of(file)) {
    for (const std::int64_t all : tokens) {
      const std::int64_t rows = std::max<std::int64_t>(1, all * experts.chosen / experts.count);
      const double calls = experts.layers * static_cast<double>(experts.count);
      passes.add(rows, 2 * experts.inner, experts.hidden, calls);
      passes.add(rows, experts.hidden, experts.inner, calls);
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

std::vector<Sizes> attention_sizes() {
  constexpr std::string_view kAttentionFile = "families/attention_gemms.toml";
  const toml::table file = parse_toml(embedded_file(kAttentionFile), kAttentionFile);
  const auto list_of = [&](std::string_view key) {
    return numbers(*file[key].as_array(), key, kAttentionFile);
  };
  const auto sequences = list_of("sequences"), contexts = list_of("contexts");
  Passes passes;
  for (const auto& [name, node] : *file["models"].as_table()) {
    const auto of = [model = node.as_table(), where = name.str(), kAttentionFile](std::string_view key) {
      return number(*model, key, where, kAttentionFile);
    };
    const std::int64_t heads = of("heads"), kv_heads = of("kv_heads"), dim = of("dim");
    for (const std::int64_t together : sequences) {
      for (const std::int64_t length : numbers(*(*node.as_table())["lengths"].as_array(), name.str()))
        passes.add(length, length, dim, 1, together * heads);
      if (together * kv_heads == 1) continue;  // one product is no batch
      for (const std::int64_t context : contexts) {
        const std::int64_t rows = heads / kv_heads;
        passes.add_one({rows, context, dim, 1, Layout::rcr, together * kv_heads});
        passes.add_one({rows, dim, context, 1, Layout::rrr, together * kv_heads});
      }
    }
  }
  for (const auto& [name, node] : *file["latent"].as_table()) {
    const auto of = [model = node.as_table(), where = name.str(), kAttentionFile](std::string_view key) {
      return number(*model, key, where, kAttentionFile);
    };
    for (const std::int64_t rows : list_of("tokens")) {
      passes.add_one({rows, of("latent"), of("dim"), 1, Layout::rrr, of("heads")});
      passes.add_one({rows, of("dim"), of("latent"), 1, Layout::rcr, of("heads")});
    }
  }
  for (const Experts& experts : experts_of(parse_toml(embedded_file(kTrainingFile), kTrainingFile))) {
    for (const std::int64_t rows : list_of("capacities")) {
      passes.add(rows, 2 * experts.inner, experts.hidden, experts.layers, experts.count);
      passes.add(rows, experts.hidden, experts.inner, experts.layers, experts.count);
    }
  }
  return passes.take();
}

std::vector<Sizes> odd_sizes() {
  constexpr std::string_view kOddFile = "families/odd_gemms.toml";
  Passes passes;
  for (const auto& [name, node] : parse_toml(embedded_file(kOddFile), kOddFile)) {
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

// ---- Sets of families/gemm_sets.toml.

const GridSets& gemm_grid_sets() {
  static const GridSets sets("families/gemm_sets.toml");
  return sets;
}

std::vector<Sizes> sizes_of_grids(std::string_view name) {
  std::vector<Sizes> sizes;
  gemm_grid_sets().each(
      name, Sizes{},
      [](Sizes& one, std::string_view names, std::int64_t value) {
        for (const char letter : names) (letter == 'm' ? one.m : letter == 'n' ? one.n : one.k) = value;
      },
      [&](const Sizes& one, std::string_view) { sizes.push_back(one); });
  if (gemm_grid_sets().named(name).sorted) {
    const auto order = [](const Sizes& one) { return std::tuple(one.m, one.n, one.k); };
    std::ranges::sort(sizes, {}, order);
    const auto same = [&](const Sizes& one, const Sizes& other) { return order(one) == order(other); };
    sizes.erase(std::unique(sizes.begin(), sizes.end(), same), sizes.end());
  }
  return sizes;
}

}  // namespace kscout
