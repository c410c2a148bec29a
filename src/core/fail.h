#pragma once
/// \file
/// Throws the library's error with a formatted message.
///
///     fail(Errc::invalid_argument, "k={}: sizes are at least 0", k);
#include <utility>

#include <fmt/format.h>

#include <kscout/error.h>

namespace kscout {

template <class... Args>
[[noreturn]] void fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kscout
