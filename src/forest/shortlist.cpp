#include "forest/shortlist.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <unordered_map>

#include "core/device_facts.h"
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
  // What shortlist_bytes pads with, and nothing else: a shortlist has one form in bytes.
  if (bytes.size() != (8 - (given - bytes.size()) % 8) % 8 ||
      bytes.find_first_not_of('\0') != std::string_view::npos) {
    fail(Errc::corrupt_data, ".ksf: {} bytes after a shortlist", bytes.size());
  }
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

constexpr int kMin = -32766;  // minimum for the last layer; missing outputs get one less

/// Sets to[i] to output `outputs[i]` of a layer.
[[gnu::always_inline]] inline void run_layer(const Shortlist::Layer& layer,
                                             std::span<const std::uint32_t> outputs,
                                             const std::int16_t* inputs, int least, std::int16_t* to) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::uint32_t output = outputs[i];
    to[i] = output == FamilyOutputs::none
                ? static_cast<std::int16_t>(kMin - 1)
                : shortlist_text::shortlist_output(inputs, static_cast<int>(layer.inputs),
                                                   layer.weights.data() + std::size_t{output} * layer.inputs,
                                                   layer.bias[output], layer.factor[output], least);
  }
}

using RunLayer = decltype(run_layer);
void run_layer_plain(const Shortlist::Layer& layer, std::span<const std::uint32_t> outputs,
                     const std::int16_t* inputs, int least, std::int16_t* to) {
  run_layer(layer, outputs, inputs, least, to);
}
#if defined(__x86_64__)
[[gnu::target("avx2"), gnu::flatten]] void run_layer_avx2(const Shortlist::Layer& layer,
                                                          std::span<const std::uint32_t> outputs,
                                                          const std::int16_t* inputs, int least,
                                                          std::int16_t* to) {
  run_layer(layer, outputs, inputs, least, to);
}
#endif

RunLayer* best_run_layer() noexcept {
#if defined(__x86_64__)
  if (best_instruction_set() >= InstructionSet::avx2) return run_layer_avx2;
#endif
  return run_layer_plain;
}

constexpr auto kInOrder = [] {
  std::array<std::uint32_t, Shortlist::max_inputs> order{};
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}();

}  // namespace

std::span<std::int16_t> rate(const Shortlist& shortlist, const FamilyOutputs& outputs, ProblemRef problem,
                             double cores, ShortlistScratch& scratch) {
  RunLayer* const run = best_run_layer();
  const auto& [first, second, last] = shortlist.layers;
  const ShortlistFeatures features = shortlist_features_of(problem, cores);
  scratch.totals.resize(outputs.of.size());
  shortlist_text::shortlist_inputs(features.data(), shortlist.mean.data(), shortlist.factor.data(),
                                   scratch.inputs.data());
  run(first, std::span(kInOrder).first(first.outputs), scratch.inputs.data(), 0, scratch.hidden.data());
  run(second, std::span(kInOrder).first(second.outputs), scratch.hidden.data(), 0, scratch.inputs.data());
  run(last, outputs.of, scratch.inputs.data(), kMin, scratch.totals.data());
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
