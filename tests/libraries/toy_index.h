#pragma once
/// \file
/// Writes indexes of the test libraries of this folder, as a generator of kernel libraries would.
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <kscout/conv_problem.h>
#include <kscout/device.h>
#include <kscout/family.h>
#include <kscout/types.h>

#include "core/files.h"
#include "core/hash.h"
#include "support/paths.h"

namespace kscout::toy {

inline std::filesystem::path library_file(const std::string& name) {
  return std::filesystem::path(paths::toy_libraries) / (name + ".so");
}

/// A CK Tile name: a tile of the given size under a layout, with beta or without.
inline std::string config_name(Layout layout, bool accumulate, int tile = 64) {
  return fmt::format(
      "gemm_universal_fp32_{}_compv3_default_intrawave_False_False_False_False_{}x{}x16_2x2x1_16x16x16{}",
      word(layout), tile, tile, accumulate ? "_beta" : "");
}

inline nlohmann::ordered_json rule(const char* name, const char* admits, const char* because) {
  return {{"name", name}, {"admits", admits}, {"because", because}};
}

/// All layouts, with and without beta, for sizes that are multiples of 8, 16 and 16.
inline nlohmann::ordered_json index(const std::filesystem::path& library, const std::string& name = "toy",
                                    int tile = 64) {
  nlohmann::ordered_json out{{"format", "kscout-kernel-library"},
                             {"version", 1},
                             {"abi", 1},
                             {"name", name},
                             {"library", library.string()},
                             {"checksum", "fnv1a64:" + hash_digits(text_hash(read_file(library)))},
                             {"backend", "cpu"},
                             {"serves",
                              {rule("m-by-8", "p.m % 8 == 0", "no tails along m"),
                               rule("n-by-16", "p.n % 16 == 0", "no tails along n"),
                               rule("k-by-16", "p.k % 16 == 0", "no tails along k"),
                               rule("few-items", "p.batch <= 4", "the grid has four layers")}},
                             {"kernels", nlohmann::ordered_json::array()}};
  for (const Layout layout : {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr}) {
    for (const bool accumulate : {false, true}) {
      out["kernels"].push_back({{"config", config_name(layout, accumulate, tile)},
                                {"kernel", fmt::format("toy_{}", word(layout))}});
    }
  }
  return out;
}

/// Convolutions of library toy_conv, fp32 of layout nhwgc: the first configs of the default family of a
/// direction, for the kernels named (default: the right one of each direction, for one config each).
inline nlohmann::ordered_json conv_index(const std::filesystem::path& library, const std::string& backend,
                                         const std::string& device, Op op = Op::gemm,
                                         const std::vector<std::string>& kernels = {},
                                         Layout layout = Layout::nhwgc) {
  nlohmann::ordered_json out = index(library, "toyconv");
  out["backend"] = backend;
  out["device"] = device;
  out["serves"] = nlohmann::ordered_json::array();
  out["kernels"] = nlohmann::ordered_json::array();
  const auto add = [&](Op direction, const std::vector<std::string>& of) {
    const Family family = enumerate({.provider = "ck_tile",
                                     .signature = signature_of(make_conv(direction, DType::fp32, layout)),
                                     .device = device_preset("gfx950"),
                                     .rules = "default",
                                     .filter = {}});
    for (std::size_t i = 0; i < of.size(); ++i)
      out["kernels"].push_back({{"config", family.name(i)}, {"kernel", of[i]}});
  };
  if (op != Op::gemm) {
    add(op, kernels);
    return out;
  }
  for (const Op direction : kDirections) add(direction, {fmt::format("toy_{}", word(direction))});
  return out;
}

/// A kernel of library toy_conv for each direction, in layouts nhwgc and ndhwgc, that takes groups of 8, 16,
/// ... channels only.
inline nlohmann::ordered_json picky_conv_index(const std::filesystem::path& library) {
  auto out = conv_index(library, "cpu", "gfx950");
  const auto three = conv_index(library, "cpu", "gfx950", Op::gemm, {}, Layout::ndhwgc);
  for (const auto& kernel : three["kernels"]) out["kernels"].push_back(kernel);
  out["serves"] = {rule("c-by-8", "p.c % (8 * p.g) == 0", "loads of 8 channels"),
                   rule("k-by-8", "p.k % (8 * p.g) == 0", "stores of 8 channels")};
  return out;
}

}  // namespace kscout::toy
