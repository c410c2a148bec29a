#pragma once
/// \file
/// Holds a list of sizes: the rows of each group of a grouped GEMM.
///
///     const SizeList rows{128, 64, 0, 7};
///     std::int64_t groups = rows.sizes().size();
///     std::int64_t number = rows.digest();          // what stands for the list in a record of numbers
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

/// An immutable list; copies share the sizes. Copying allocates nothing, and threads may do it at once.
class SizeList {
 public:
  SizeList() = default;  ///< no sizes
  SizeList(std::initializer_list<std::int64_t> sizes)
      : SizeList(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}
  explicit SizeList(std::span<const std::int64_t> sizes);

  std::span<const std::int64_t> sizes() const noexcept {
    return shared_ ? std::span<const std::int64_t>(*shared_) : std::span<const std::int64_t>();
  }
  /// A hash of the sizes in 63 bits: the same on every machine and in every version. 0: the list is empty.
  std::int64_t digest() const noexcept { return digest_; }
  explicit operator std::int64_t() const noexcept { return digest_; }
  explicit operator std::uint64_t() const noexcept { return static_cast<std::uint64_t>(digest_); }

  /// Compares the sizes.
  bool operator==(const SizeList& other) const noexcept;

 private:
  std::shared_ptr<const std::vector<std::int64_t>> shared_;
  std::int64_t digest_ = 0;
};

/// The sizes separated by plus signs: "128+64+0+7".
std::string size_list_text(const SizeList& list);
/// Inverse of size_list_text. Throws invalid_argument with the part that is no whole number of 64 bits.
SizeList parse_size_list(std::string_view text);

}  // namespace kscout
