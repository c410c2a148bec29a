#include <array>

#include <kscout/backend.h>

#include "backend/cpu/cpu_backend.h"
#include "core/names.h"

namespace kscout {

namespace {

constexpr std::array<std::string_view, 1> kNames = {"cpu"};
const std::array<Backend& (*)(), kNames.size()> kBackends = {&cpu_backend};

}  // namespace

Backend& backend(std::string_view name) { return kBackends[index_of_word("backend", name, kNames)](); }

std::span<const std::string_view> backend_names() noexcept { return kNames; }

}  // namespace kscout
