#include <array>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/names.h"
#include "provider/native/native.h"

namespace kscout {

namespace {

/// Every provider, in the order in which names are tried.
const std::array kProviders = {&native_provider};
constexpr std::array<std::string_view, kProviders.size()> kNames = {"native"};

}  // namespace

const Provider& provider(std::string_view name) {
  return kProviders[index_of_word("provider", name, kNames)]();
}

std::span<const std::string_view> provider_names() noexcept { return kNames; }

NamedConfig parse_config_name(std::string_view name) {
  for (std::size_t i = 0; i < kProviders.size(); ++i) {
    if (name.starts_with(kNames[i])) return kProviders[i]().parse(name);
  }
  fail(Errc::invalid_argument, "'{}' is no kernel's name: it starts with no provider (one of: {})", name,
       fmt::join(kNames, ", "));
}

}  // namespace kscout
