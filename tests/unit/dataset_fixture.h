#pragma once
/// \file
/// Provides a small provider and hand-made tables of measurements, for tests of storage and evaluation.
#include <array>
#include <string>
#include <vector>

#include <kscout/error.h>
#include <kscout/measurement.h>
#include <kscout/provider.h>

#include "dataset/dataset.h"

namespace kscout::test {

inline constexpr std::array<std::string_view, 2> kKinds = {"tiled", "skinny"};
inline constexpr std::array<Axis, 3> kAxes = {
    Axis{"kind", "1", "how it walks", kKinds, false}, Axis{"tile", "elements", "rows and columns of a tile"},
    Axis{"split_k", "1", "split-K slices; clashes with a field of problems"}};
inline constexpr ConfigSpace kSpace{"toy", Op::gemm, kAxes};

/// Names are toy_<layout>_<kind>_<tile>_<split_k>.
class ToyProvider : public Provider {
 public:
  std::string_view name() const noexcept override { return "toy"; }
  std::string_view help() const noexcept override { return "for tests"; }
  bool runs_on(const Device&) const noexcept override { return true; }
  std::span<const Op> ops() const noexcept override {
    static constexpr std::array<Op, 1> only = {Op::gemm};
    return only;
  }
  const ConfigSpace& space(Op) const override { return kSpace; }
  std::string print(const Signature& signature, const KernelConfig& config) const override {
    std::string text = "toy_" + std::string(word(signature.layout));
    for (std::size_t i = 0; i < kAxes.size(); ++i) text += "_" + axis_value_text(kAxes[i], config[i]);
    return text;
  }
  NamedConfig parse(std::string_view text) const override {
    std::vector<std::string> parts(1);
    for (const char c : text) {
      if (c == '_') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    if (parts.size() != 5) throw Error(Errc::invalid_argument, std::string(text) + ": no toy name");
    NamedConfig named{signature_of(make_gemm(1, 1, 1, DType::fp32, kscout::parse<Layout>(parts[1]))),
                      KernelConfig(kSpace)};
    for (std::size_t i = 0; i < kAxes.size(); ++i) named.config[i] = parse_axis_value(kAxes[i], parts[i + 2]);
    return named;
  }
  Traits traits(const Signature&, const KernelConfig&, const Device&) const override { return {}; }
};

inline const Provider& toy_provider(std::string_view name) {
  static const ToyProvider provider;
  if (name != "toy") throw Error(Errc::invalid_argument, "unknown provider '" + std::string(name) + "'");
  return provider;
}

inline KernelConfig toy_config(int kind, int tile, int split_k = 1) {
  KernelConfig config(kSpace);
  config[0] = kind;
  config[1] = tile;
  config[2] = split_k;
  return config;
}

inline Measurement timed(double time_us, Status status = Status::ok, int pass = 1) {
  Measurement measured;
  measured.status = status;
  measured.time_us = time_us;
  measured.pass = pass;
  measured.spread = 0.01;
  measured.repeats = 5;
  measured.error = 0.1;
  return measured;
}

inline Measurement failed(Status status) {
  Measurement measured;
  measured.status = status;
  return measured;
}

inline Device toy_device() {
  Device device;
  device.name = "toy-2c";
  device.cores = 2;
  device.max_clock_mhz = 2500.5;
  return device;
}

inline DatasetOptions toy_options() {
  DatasetOptions options;
  options.providers = toy_provider;
  return options;
}

/// Two problems, three configs; every kind of value occurs.
inline MeasurementTable toy_table() {
  MeasurementTable table;
  table.device = toy_device();
  GemmProblem skinny = make_gemm(1, 4096, 4096, DType::fp32, Layout::rrr);
  skinny.weight = 32;
  skinny.batch = 2;
  table.problems = {make_gemm(256, 256, 256), skinny};
  table.configs = {toy_config(0, 64), toy_config(1, 8, KernelConfig::unknown), toy_config(0, 128, 4)};
  table.rows = {{0, 2, timed(90)},
                {0, 0, timed(100.25)},
                {0, 2, timed(91.5, Status::ok, 2)},
                {0, 1, timed(700, Status::pruned_early)},
                {1, 1, timed(2000)},
                {1, 0, failed(Status::crashed)},
                {1, 2, failed(Status::wrong)}};
  table.rows[1].measured.noisy = true;
  table.rows[1].measured.cache = CacheState::cold;
  table.rows[1].measured.setup_us = 12.5;
  table.metadata = {{"rule_set", "tiny"}, {"compiler", "GNU 12"}};
  return table;
}

/// `problems` x 4 configs, some in both passes, with equal times and failures; its values depend on `salt`.
inline MeasurementTable made_up_table(int problems, int salt) {
  MeasurementTable table;
  table.device = toy_device();
  table.metadata = {{"rules", "tiny"}, {"created", salt % 2 ? "2026-11-02" : "2026-11-01"}};
  table.configs = {toy_config(0, 64), toy_config(1, 8), toy_config(0, 128, 4),
                   toy_config(1, 16, 2 + salt % 2)};
  for (int p = 0; p < problems; ++p)
    table.problems.push_back(
        make_gemm(16 + p % 7, 32 + p / 7, 64, DType::fp32, p % 3 ? Layout::rcr : Layout::rrr));
  for (std::uint32_t p = 0; p < table.problems.size(); ++p) {
    for (std::uint32_t c = 0; c < table.configs.size(); ++c) {
      const int mix = static_cast<int>(p * 7 + c * 3) + salt;
      Measurement measured = mix % 11 == 0  ? failed(Status::wrong)
                             : mix % 5 == 0 ? timed(300.0 + mix % 9, Status::pruned_early)
                                            : timed(100.0 + mix % 3);
      if (measured.status == Status::ok) measured.spread = 0.001 * (1 + mix % 17);
      table.rows.push_back({p, c, measured});
      if (mix % 4 == 0) table.rows.push_back({p, c, timed(99.0 + mix % 6, Status::ok, 2)});
    }
  }
  return table;
}

}  // namespace kscout::test
