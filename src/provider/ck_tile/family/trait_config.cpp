#include <algorithm>
#include <set>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "core/names.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/ck_tile/family/ck_builder.h"

namespace kscout {
namespace {

using enum CkConvAxis;
using MacroTile = std::array<std::int32_t, 3>;

constexpr std::string_view kKeys[] = {
    "data_type",          "pipeline",    "scheduler",     "ndim_spatial", "num_groups_to_merge",
    "double_smem_buffer", "split_image", "explicit_gemm", "two_stage"};
constexpr std::string_view kVariants[] = {ck_variant(kDirections[0]), ck_variant(kDirections[1]),
                                          ck_variant(kDirections[2])};
/// The pipelines that an omitted key stands for in trait files.
const std::vector<std::string> kPipelines = {"basic_v1", "mem",    "compv3",     "compv4",
                                             "compv5",   "compv6", "comp_async", "basic_async_v1"};

/// The lists of allowed values of one file.
class TraitLists {
 public:
  TraitLists(std::string_view text, std::string_view file) : file_(file) {
    const Json root = Json::parse(text, nullptr, false);
    if (root.is_discarded() || !root.is_object()) fail(Errc::corrupt_data, "{}: no JSON object", file_);
    for (const auto& [key, value] : root.items())
      check_word("key", key, std::array<std::string_view, 2>{"variant", "trait_config"});
    if (!root.contains("variant") || !root["variant"].is_string())
      fail(Errc::corrupt_data, "{}: 'variant' is missing", file_);
    op = kDirections[check_word("variant", root["variant"].get<std::string>(), kVariants)];
    lists_ = root.value("trait_config", Json::object());
    for (const auto& [key, list] : lists_.items()) {
      check_word("trait", key, kKeys);
      if (!list.is_object() || !list.contains("values") || !list["values"].is_array() ||
          list["values"].empty())
        fail(Errc::corrupt_data, "{}: trait '{}' must be an object with a list 'values'", file_, key);
    }
  }

  template <class T>
  std::vector<T> values(const std::string& key, std::vector<T> otherwise) const {
    if (!lists_.contains(key)) return otherwise;
    try {
      return lists_[key]["values"].get<std::vector<T>>();
    } catch (const Json::exception&) {
      fail(Errc::corrupt_data, "{}: trait '{}' holds a value of a wrong type", file_, key);
    }
  }
  /// Positions in `words`.
  std::vector<std::int32_t> words(const std::string& key, std::span<const std::string_view> known,
                                  const std::vector<std::string>& otherwise) const {
    std::vector<std::int32_t> positions;
    for (const std::string& word : values<std::string>(key, otherwise))
      positions.push_back(static_cast<std::int32_t>(check_word(key, word, known)));
    return positions;
  }

  Op op = Op::conv_fwd;

 private:
  std::size_t check_word(std::string_view what, std::string_view text,
                         std::span<const std::string_view> known) const {
    if (const auto position = find_word(text, known)) return *position;
    fail(Errc::corrupt_data, "{}: {}", file_, unknown_name_message(what, text, known));
  }
  std::string file_;
  Json lists_;
};

FamilyRequest of_set(const FamilyRequest& request, const Signature& signature, std::string rules) {
  FamilyRequest one = request;
  one.signature = signature;
  one.rules = std::move(rules);
  one.filter.clear();
  return one;
}

MacroTile tile_of(const KernelConfig& config) {
  return {value_of(config, tile_m), value_of(config, tile_n), value_of(config, tile_k)};
}

/// The tiles for which set `default` has compv4, with the depth that compv3 has there.
std::set<MacroTile> tiles_of_compv4(const FamilyRequest& request, const Signature& signature) {
  const Signature forward = signature_of(make_conv(Op::conv_fwd, signature.dtype_b, signature.layout));
  const ConfigTable configs = enumerate_configs(family_file(request.provider, Op::conv_fwd),
                                                of_set(request, forward, "default"), nullptr);
  std::set<MacroTile> tiles;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    MacroTile tile = tile_of(configs[i]);
    tile[2] /= 2;
    if (has_word(configs[i], pipeline, "compv4")) tiles.insert(tile);
  }
  return tiles;
}

/// The configs of one signature, before rules and filter.
ConfigTable product(const TraitLists& traits, const FamilyRequest& request, const Signature& signature,
                    TraitMode mode) {
  const FamilyFile& file = family_file(request.provider, signature.op);
  const ConfigTable base = enumerate_configs(file, of_set(request, signature, "first"), nullptr);
  const std::set<MacroTile> compv4_tiles = tiles_of_compv4(request, signature);
  const std::vector<bool> off = {false};
  const auto two_stages = traits.values<bool>(
      "two_stage", signature.op == Op::conv_bwd_weight ? std::vector<bool>{false, true} : off);
  ConfigTable configs(*file.space);
  KernelConfig config(*file.space);
  const auto each = [&](CkConvAxis axis, const auto& list, auto&& then) {
    for (const auto value : list) {
      value_of(config, axis) = static_cast<std::int32_t>(value);
      then();
    }
  };
  for (std::size_t i = 0; i < base.size(); ++i) {
    if (!has_word(base[i], pipeline, "compv3")) continue;
    config = base[i];
    each(pipeline, traits.words("pipeline", axis_of(pipeline).words, kPipelines), [&] {
      const bool compv4 = has_word(config, pipeline, "compv4");
      if (compv4 && mode == TraitMode::strict && !compv4_tiles.contains(tile_of(config))) return;
      each(scheduler, traits.words("scheduler", axis_of(scheduler).words, {"intrawave", "interwave"}), [&] {
        each(merged_groups, traits.values<std::int32_t>("num_groups_to_merge", {1}), [&] {
          each(double_buffer,
               compv4 ? std::vector<bool>{true} : traits.values<bool>("double_smem_buffer", off), [&] {
                 each(split_image, traits.values<bool>("split_image", off), [&] {
                   each(explicit_gemm, traits.values<bool>("explicit_gemm", off),
                        [&] { each(two_stage, two_stages, [&] { configs.push_back(config); }); });
                 });
               });
        });
      });
    });
  }
  return configs;
}

}  // namespace

std::vector<SignatureConfigs> trait_configs(std::string_view text, std::string_view file,
                                            const FamilyRequest& request, TraitMode mode) {
  const TraitLists traits(text, file);
  const bool old = request.device.arch == "gfx90a";
  const std::vector<std::string> types =
      old ? std::vector<std::string>{"fp16", "bf16", "fp32"}
          : std::vector<std::string>{"fp16", "bf16", "fp32", "fp8", "bf8", "int8"};
  std::vector<SignatureConfigs> all;
  for (const std::int32_t rank : traits.values<std::int32_t>("ndim_spatial", {2})) {
    if (rank != 2 && rank != 3)
      fail(Errc::corrupt_data, "{}: ndim_spatial {}: kernels are of 2 or 3 axes", file, rank);
    for (const std::int32_t dtype : traits.words("data_type", EnumWords<DType>::words, types)) {
      const Signature signature = signature_of(
          make_conv(traits.op, static_cast<DType>(dtype), rank == 2 ? Layout::nhwgc : Layout::ndhwgc));
      FamilyRequest one = of_set(request, signature, "first");
      one.filter = request.filter;
      all.push_back({signature, admitted_configs(family_file(request.provider, signature.op), one,
                                                 product(traits, request, signature, mode))});
    }
  }
  return all;
}

}  // namespace kscout
