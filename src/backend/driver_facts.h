#pragma once
/// \file
/// Queries a GPU's driver in a forked child, so that this process has no GPU context.
///
///     const Facts facts = ask_driver<Facts>(60, "the GPU's driver", [] { return facts_of(device); });
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include <kscout/error.h>

#include "core/fail.h"
#include "core/process.h"

namespace kscout {

/// The child returns plain bytes. An Error in the child becomes `unsupported` with its text; a crash or a
/// hang becomes device_failure.
template <class Plain, class Ask>
Plain ask_driver(double seconds, std::string_view whom, const Ask& ask) {
  static_assert(std::is_trivially_copyable_v<Plain>);
  const ChildResult asked = in_child(seconds, [&] {
    try {
      const Plain found = ask();
      return std::string(reinterpret_cast<const char*>(&found), sizeof found);
    } catch (const Error& error) {
      return std::string("!") + error.what();
    }
  });
  if (!asked.failure.empty()) fail(Errc::device_failure, "asking {} {}", whom, asked.failure);
  if (asked.output.starts_with('!') && asked.output.size() != sizeof(Plain))
    fail(Errc::unsupported, "{}", asked.output.substr(1));
  Plain found;
  std::memcpy(&found, asked.output.data(), sizeof found);
  return found;
}

}  // namespace kscout
