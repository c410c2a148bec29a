#pragma once
/// \file
/// Converts configs to a provider's own struct and back, by a list of the struct's members in the order of
/// the axes.
///
///     constexpr std::tuple kFields{&NativeConfig::isa, &NativeConfig::kind, ...};
///     NativeConfig c = typed_config(config, native_gemm_space, kFields);
///     KernelConfig same = untyped_config(c, native_gemm_space, kFields);
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include <kscout/config.h>

#include "core/fail.h"

namespace kscout {

/// The value of an axis. Throws invalid_argument when the value is unknown, negative, without a word, or
/// above 1 for a flag.
inline std::int32_t axis_value(const KernelConfig& config, std::size_t index, bool flag) {
  const Axis& axis = config.space->axes[index];
  const std::int32_t value = config[index];
  if (value >= 0 && !axis.words.empty() && static_cast<std::size_t>(value) >= axis.words.size())
    axis_value_text(axis, value);  // throws
  if (value < 0 || (flag && value > 1)) {
    fail(Errc::invalid_argument, "{} {}: axis {} is {}; {}", config.space->provider, word(config.space->op),
         axis.name, value == KernelConfig::unknown ? "unknown" : std::to_string(value),
         flag ? "it is 0 or 1" : "every axis needs a value of at least 0");
  }
  return value;
}

/// Throws invalid_argument when the config belongs to another space, and the errors of axis_value; bool
/// members are flags.
template <class T, class... Members>
T typed_config(const KernelConfig& config, const ConfigSpace& space,
               const std::tuple<Members T::*...>& fields) {
  if (config.space != &space) {
    fail(Errc::invalid_argument, "a config of {} is not one of {} {}",
         config.space ? config.space->provider : "no space", space.provider, word(space.op));
  }
  T typed{};
  std::size_t axis = 0;
  const auto read = [&]<class M>(M& member) {
    member = static_cast<M>(axis_value(config, axis++, std::is_same_v<M, bool>));
  };
  std::apply([&](auto... field) { (read(typed.*field), ...); }, fields);
  return typed;
}

template <class T, class... Members>
KernelConfig untyped_config(const T& typed, const ConfigSpace& space,
                            const std::tuple<Members T::*...>& fields) {
  KernelConfig config(space);
  std::size_t axis = 0;
  std::apply([&](auto... field) { ((config[axis++] = static_cast<std::int32_t>(typed.*field)), ...); },
             fields);
  return config;
}

}  // namespace kscout
