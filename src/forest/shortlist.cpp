#include "forest/shortlist.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <unordered_map>

#include "core/fail.h"

namespace kscout {

namespace shortlist_text {
#include "forest/shortlist-inl.h"
}
static_assert(shortlist_text::shortlist_features == kShortlistFeatures);

ShortlistFeatures shortlist_features_of(ProblemRef problem, double cores) noexcept {
  const ImplicitGemm product = product_of(problem);
  const Layout layout = signature_of(problem).layout;
  ShortlistFeatures features;
  shortlist_text::describe_product(
      product.m, product.n, product.k, product.groups, layout == Layout::rcr || layout == Layout::rrr,
      layout == Layout::rrr || layout == Layout::crr, shortlist_cores(cores), features.data());
  return features;
}

std::int64_t shortlist_cores(double cores) noexcept {
  return cores >= 1 && cores < 1e6 ? static_cast<std::int64_t>(cores) : 1;
}

void check(const Shortlist& shortlist) {
  constexpr std::int32_t kMaxBias = 1 << 30;
  std::size_t inputs = kShortlistFeatures;
  for (std::size_t i = 0; i < shortlist.layers.size(); ++i) {
    const Shortlist::Layer& layer = shortlist.layers[i];
    if (layer.inputs != inputs || layer.inputs > Shortlist::max_inputs ||
        layer.weights.size() != std::size_t{layer.inputs} * layer.outputs ||
        layer.bias.size() != layer.outputs || layer.factor.size() != layer.outputs) {
      fail(Errc::invalid_argument,
           "layer {} of a shortlist: {} inputs, {} outputs, {} weights; {} inputs expected", i, layer.inputs,
           layer.outputs, layer.weights.size(), inputs);
    }
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      if (layer.bias[o] > kMaxBias || layer.bias[o] < -kMaxBias || layer.factor[o] < 0) {
        fail(Errc::invalid_argument, "layer {} of a shortlist: bias {} and factor {} of output {}", i,
             layer.bias[o], layer.factor[o], o);
      }
    }
    inputs = layer.outputs;
  }
  if (inputs != shortlist.configs.size())
    fail(Errc::invalid_argument, "a shortlist of {} outputs for {} configs", inputs,
         shortlist.configs.size());
}

std::string shortlist_bytes(const Shortlist& shortlist) {
  std::string bytes;
  const auto put = [&](const auto& values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
  };
  std::array<std::uint32_t, 4> sizes{kShortlistFeatures};
  for (std::size_t i = 0; i < 3; ++i) sizes[i + 1] = shortlist.layers[i].outputs;
  put(sizes);
  put(shortlist.mean);
  put(shortlist.factor);
  for (const Shortlist::Layer& layer : shortlist.layers) {
    put(layer.bias);
    put(layer.factor);
  }
  for (const Shortlist::Layer& layer : shortlist.layers) put(layer.weights);
  bytes.append((8 - bytes.size() % 8) % 8, '\0');
  return bytes;
}

Shortlist parse_shortlist(std::string_view bytes) {
  const std::size_t given = bytes.size();
  const auto take = [&](auto* to, std::size_t count) {
    const std::size_t size = count * sizeof *to;
    if (size > bytes.size()) fail(Errc::corrupt_data, ".ksf: a shortlist of {} bytes ends too early", given);
    if (size > 0) std::memcpy(to, bytes.data(), size);
    bytes.remove_prefix(size);
  };
  std::array<std::uint32_t, 4> sizes;
  take(sizes.data(), sizes.size());
  if (sizes[0] != kShortlistFeatures || sizes[1] > Shortlist::max_inputs ||
      sizes[2] > Shortlist::max_inputs || sizes[3] > given) {
    fail(Errc::corrupt_data, ".ksf: a shortlist of {} features and layers of {}, {} and {}", sizes[0],
         sizes[1], sizes[2], sizes[3]);
  }
  Shortlist shortlist;
  take(shortlist.mean.data(), kShortlistFeatures);
  take(shortlist.factor.data(), kShortlistFeatures);
  for (std::size_t i = 0; i < 3; ++i) {
    Shortlist::Layer& layer = shortlist.layers[i];
    layer.inputs = sizes[i];
    layer.outputs = sizes[i + 1];
    layer.bias.resize(layer.outputs);
    layer.factor.resize(layer.outputs);
    take(layer.bias.data(), layer.outputs);
    take(layer.factor.data(), layer.outputs);
  }
  for (Shortlist::Layer& layer : shortlist.layers) {
    const std::size_t weights = std::size_t{layer.inputs} * layer.outputs;
    if (weights > bytes.size())
      fail(Errc::corrupt_data, ".ksf: a shortlist of {} bytes ends too early", given);
    layer.weights.resize(weights);
    take(layer.weights.data(), weights);
  }
  if (bytes.size() >= 8 || bytes.find_first_not_of('\0') != std::string_view::npos)
    fail(Errc::corrupt_data, ".ksf: {} bytes after a shortlist", bytes.size());
  return shortlist;
}

FamilyOutputs outputs_of(const Shortlist& shortlist, const ConfigTable& configs) {
  std::unordered_map<KernelConfig, std::uint32_t> output;
  for (const KernelConfig& config : shortlist.configs)
    output.emplace(config, static_cast<std::uint32_t>(output.size()));
  FamilyOutputs outputs;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto found = output.find(configs[i]);
    outputs.of.push_back(found == output.end() ? FamilyOutputs::none : found->second);
  }
  return outputs;
}

namespace {

std::int16_t output_of(const Shortlist::Layer& layer, std::uint32_t output, const std::int16_t* inputs,
                       int least) {
  return shortlist_text::shortlist_output(inputs, static_cast<int>(layer.inputs),
                                          layer.weights.data() + std::size_t{output} * layer.inputs,
                                          layer.bias[output], layer.factor[output], least);
}

}  // namespace

std::span<std::int16_t> rate(const Shortlist& shortlist, const FamilyOutputs& outputs, ProblemRef problem,
                             double cores, ShortlistScratch& scratch) {
  constexpr int kMin = -32766;
  const auto& [first, second, last] = shortlist.layers;
  const ShortlistFeatures features = shortlist_features_of(problem, cores);
  scratch.totals.resize(outputs.of.size());
  shortlist_text::shortlist_inputs(features.data(), shortlist.mean.data(), shortlist.factor.data(),
                                   scratch.inputs.data());
  for (std::uint32_t o = 0; o < first.outputs; ++o)
    scratch.hidden[o] = output_of(first, o, scratch.inputs.data(), 0);
  for (std::uint32_t o = 0; o < second.outputs; ++o)
    scratch.inputs[o] = output_of(second, o, scratch.hidden.data(), 0);
  for (std::size_t i = 0; i < outputs.of.size(); ++i) {
    const std::uint32_t output = outputs.of[i];
    scratch.totals[i] = output == FamilyOutputs::none ? static_cast<std::int16_t>(kMin - 1)
                                                      : output_of(last, output, scratch.inputs.data(), kMin);
  }
  return scratch.totals;
}

std::size_t keep_top(std::span<std::int16_t> ratings, std::span<const std::uint8_t> allowed,
                     std::span<const std::uint8_t> always, std::size_t most,
                     std::span<std::uint8_t> kept) noexcept {
  return shortlist_text::keep_top_totals(ratings.data(), allowed.data(), always.data(), kept.size(), most,
                                         kept.data());
}

void put_behind(std::span<double> scores, std::span<const std::uint8_t> allowed,
                std::span<const std::uint8_t> kept) noexcept {
  shortlist_text::put_behind(scores.data(), allowed.data(), kept.data(), scores.size());
}

}  // namespace kscout
