#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include <kscout/fields.h>
#include <kscout/size_list.h>

#include "core/fail.h"
#include "core/split.h"

namespace kscout {

SizeList::SizeList(std::span<const std::int64_t> sizes) {
  if (sizes.empty()) return;
  shared_ = std::make_shared<const std::vector<std::int64_t>>(sizes.begin(), sizes.end());
  std::uint64_t hash = sizes.size();
  for (const std::int64_t size : sizes) hash = mix_hash(hash, static_cast<std::uint64_t>(size));
  digest_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(hash >> 1));
}

bool SizeList::operator==(const SizeList& other) const noexcept {
  return shared_ == other.shared_ || (digest_ == other.digest_ && std::ranges::equal(sizes(), other.sizes()));
}

std::string size_list_text(const SizeList& list) { return fmt::format("{}", fmt::join(list.sizes(), "+")); }

SizeList parse_size_list(std::string_view text) {
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : split(text, '+')) {
    const char* const last = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), last, sizes.emplace_back());
    if (error == std::errc() && stop == last && !part.empty()) continue;
    fail(Errc::invalid_argument, "size '{}' {}; write a list as 128+64+0+7", part,
         error == std::errc::result_out_of_range ? "does not fit 64 bits" : "is not a whole number");
  }
  return SizeList(sizes);
}

}  // namespace kscout
