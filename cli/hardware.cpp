#include <cmath>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/device.h>
#include <kscout/error.h>

#include "core/device_facts.h"
#include "core/field_text.h"
#include "core/json_fields.h"
#include "options.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

/// Integers without ".0": most facts are counts and bytes.
Json number_json(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

/// All facts of a device, unknown ones as null.
Json device_json(const Device& device) {
  Json facts;
  for_each_field<Device>([&](const auto& field) {
    const auto& value = device.*field.member;
    auto& fact = facts[std::string(field.name)];
    using V = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<V, double>) {
      if (std::isfinite(value)) fact = number_json(value);
    } else if (const std::string text = field_text(value); !text.empty()) {
      fact = text;
    }
  });
  const double peak = peak_fp32_gflops(device);
  facts["peak_fp32_gflops"] = std::isfinite(peak) ? Json(peak) : Json();
  return facts;
}

/// The known facts of a device, one row each.
Table facts_table(const Device& device) {
  Table table({"fact", "value", "unit", "meaning"});
  const auto add = [&](std::string_view name, Cell value, std::string_view unit, std::string_view help) {
    table.add_row({text(name), std::move(value), text(unit == "1" ? "" : unit), text(help)});
  };
  for_each_field<Device>([&](const auto& field) {
    const auto& value = device.*field.member;
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>) {
      if (std::isfinite(value)) add(field.name, number(value, 12), field.unit, field.help);
    } else if (const std::string shown = field_text(value); !shown.empty()) {
      add(field.name, text(shown), field.unit, field.help);
    }
  });
  const double peak = peak_fp32_gflops(device);
  if (std::isfinite(peak)) {
    add("peak_fp32_gflops", number(peak), "GFLOPS", "2 * lanes * fma_per_cycle * clock * cores, in fp32");
  }
  return table;
}

/// The GPU that backend cuda uses. Null when there is none; `why` then receives the error message.
Backend* gpu(std::string& why) {
  try {
    Backend& found = backend("cuda");
    found.device();
    return &found;
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

void print_all(Format format) {
  const Device here = detect_cpu();
  const std::vector<Device> gpus = detect_amd_gpus();
  std::string no_gpu;
  Backend* const cuda = gpu(no_gpu);
  if (format == Format::json) {
    Json out{{"detected", device_json(here)}};
    out["gpu"] = cuda ? device_json(cuda->device()) : Json();
    out["versions"] = cuda ? Json(cuda->versions()) : Json::object();
    out["gpus"] = Json::array();
    for (const Device& amd : gpus) out["gpus"].push_back(device_json(amd));
    out["presets"] = Json::array();
    for (const auto& name : device_preset_names()) out["presets"].push_back(device_json(device_preset(name)));
    fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("detected (unknown facts are left out)\n\n");
  facts_table(here).print(format);
  if (cuda) {
    fmt::print("\ngpu, for --backend cuda\n\n");
    facts_table(cuda->device()).print(format);
    fmt::print("\n");
    Table versions({"version", "value"});
    for (const auto& [name, value] : cuda->versions()) versions.add_row({text(name), text(value)});
    versions.print(format);
  } else {
    fmt::print("\nno gpu: {}\n", no_gpu);
  }
  for (const Device& amd : gpus) {
    fmt::print("\n");
    facts_table(amd).print(format);
  }
  fmt::print("\npresets, for --device\n\n");
  Table table({"name", "kind", "arch", "cores", "model"});
  for (const auto& name : device_preset_names()) {
    const Device preset = device_preset(name);
    table.add_row({text(preset.name), text(word(preset.kind)), text(preset.arch), number(preset.cores),
                   text(preset.model)});
  }
  table.print(format);
}

void print_one(const Device& device, Format format) {
  if (format == Format::json) {
    fmt::print("{}\n", device_json(device).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    facts_table(device).print(format);
  }
}

}  // namespace

void setup_hardware(CLI::App& verb) {
  struct Options {
    std::string device;
    Format format = Format::text;
  };
  const auto options = std::make_shared<Options>();
  verb.add_option(
      "--device", options->device,
      "show only this device: a preset's name, auto for this machine's CPU, gpu for its first AMD GPU");
  add_format_option(verb, options->format, /*csv=*/false);
  verb.footer(
      "examples\n"
      "  kscout hardware\n"
      "  kscout hardware --device h200 --format json\n"
      "  KSCOUT_ISA=avx2 kscout hardware        # this CPU as a device without AVX-512\n\n"
      "exit status: 0 done, 2 wrong arguments, 4 no such device");
  verb.callback([options] {
    if (options->device.empty()) {
      print_all(options->format);
    } else {
      print_one(device_named(options->device), options->format);
    }
  });
}

}  // namespace kscout::cli
