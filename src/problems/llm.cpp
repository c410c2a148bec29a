// Products of public language models, from families/llm_models.toml.
#include <toml++/toml.h>

#include "core/embedded.h"
#include "core/fail.h"
#include "core/names.h"
#include "problems/sizes.h"

namespace kscout {

namespace {

constexpr std::string_view kFile = "families/llm_models.toml";

struct Product {
  std::int64_t n, k;
  double calls;
};

std::int64_t number(const toml::table& table, std::string_view key, std::string_view model) {
  const auto value = table[key].value<std::int64_t>();
  if (!value || *value < 1)
    fail(Errc::corrupt_data, "{}: model {}: {} must be a number above 0", kFile, model, key);
  return *value;
}

/// What one forward pass of a decoder multiplies: q, k and v as one product, gate and up as one.
std::vector<Product> described_products(const toml::table& model, std::string_view name) {
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

std::vector<Product> products_of(const toml::table& model, std::string_view name) {
  const auto* const list = model["products"].as_array();
  if (!list) return described_products(model, name);
  std::vector<Product> products;
  for (const auto& node : *list) {
    const toml::table* const product = node.as_table();
    if (!product) fail(Errc::corrupt_data, "{}: model {}: products are tables", kFile, name);
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
    for (const Product& product : products) {
      for (const auto& tokens : *file["tokens"].as_array()) {
        sizes.push_back({*tokens.value<std::int64_t>(), product.n, product.k, product.calls});
      }
    }
  }
  return sizes;
}

}  // namespace kscout
