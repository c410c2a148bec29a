#pragma once
/// \file
/// Describes how a problem is computed: one value per axis of a named config space.
///
///     const kscout::ConfigSpace& space = kscout::provider("native").space(kscout::Op::gemm);
///     kscout::KernelConfig config(space);
///     config.set("mr", 6);
///     std::int32_t nr = config["nr"];           // KernelConfig::unknown until set
///
/// A config is a flat record, so that generic code (families, Parquet, features, selection) works with
/// columns and indices. Only providers use typed structs.
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <kscout/types.h>

namespace kscout {

/// One parameter of a config.
struct Axis {
  std::string_view name;
  std::string_view unit;  ///< "1" without a unit
  std::string_view help;
  /// Names of the values 0, 1, ... of an enum; empty for a number.
  std::span<const std::string_view> words = {};
  bool launch = false;  ///< passed at launch: configs that differ only in such axes share one compiled kernel
};

/// The axes of one provider and operation. Spaces stay until the process ends and are compared by address.
struct ConfigSpace {
  std::string_view provider;
  Op op;
  std::span<const Axis> axes;
  /// Of a joint provider: the spaces of its members, by the value of axis 0.
  std::span<const ConfigSpace* const> members = {};

  /// Position of an axis; throws invalid_argument naming the nearest axis.
  std::size_t axis_index(std::string_view name) const;
};

inline constexpr std::size_t kMaxAxes = 32;

struct KernelConfig {
  static constexpr std::int32_t unknown = std::numeric_limits<std::int32_t>::min();

  const ConfigSpace* space = nullptr;
  std::array<std::int32_t, kMaxAxes> value{};  ///< by axis index; entries past the last axis are 0

  KernelConfig() = default;
  /// Sets every axis to unknown.
  explicit KernelConfig(const ConfigSpace& of);

  std::int32_t operator[](std::size_t axis) const noexcept { return value[axis]; }
  std::int32_t& operator[](std::size_t axis) noexcept { return value[axis]; }
  /// The value of the axis with this name; throws invalid_argument for an unknown axis.
  std::int32_t operator[](std::string_view axis) const { return value[space->axis_index(axis)]; }
  void set(std::string_view axis, std::int32_t to) { value[space->axis_index(axis)] = to; }

  bool operator==(const KernelConfig&) const = default;
};

/// Whether every axis has a value. Short kernel names of CK Tile leave axes unknown.
bool is_complete(const KernelConfig& config) noexcept;
/// Whether two configs of one space have the same value on every axis that both know.
bool agree(const KernelConfig& a, const KernelConfig& b) noexcept;

/// The word of an enum axis ("avx2"), the number of another axis ("6"), "?" when unknown.
std::string axis_value_text(const Axis& axis, std::int32_t value);
/// Inverse of axis_value_text; throws invalid_argument naming the axis, the value and the nearest word.
std::int32_t parse_axis_value(const Axis& axis, std::string_view text);

/// Stores configs of one space by column.
class ConfigTable {
 public:
  ConfigTable() = default;
  explicit ConfigTable(const ConfigSpace& space) : space_(&space), columns_(space.axes.size()) {}

  const ConfigSpace& space() const noexcept { return *space_; }
  std::size_t size() const noexcept { return columns_.empty() ? 0 : columns_.front().size(); }
  bool empty() const noexcept { return size() == 0; }
  std::span<const std::int32_t> column(std::size_t axis) const noexcept { return columns_[axis]; }
  KernelConfig operator[](std::size_t row) const noexcept;
  void push_back(const KernelConfig& config);
  void reserve(std::size_t rows);

 private:
  const ConfigSpace* space_ = nullptr;
  std::vector<std::vector<std::int32_t>> columns_;
};

}  // namespace kscout

template <>
struct std::hash<kscout::KernelConfig> {
  std::size_t operator()(const kscout::KernelConfig& config) const noexcept;
};
