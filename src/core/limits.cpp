// Prints, parses and checks limits of a run and places of operands.
#include <algorithm>

#include <kscout/limits.h>
#include <kscout/memory_space.h>

#include "core/fail.h"
#include "core/numbers.h"

namespace kscout {

std::string print(const Limits& limits) {
  std::string text;
  if (limits.workspace_bytes >= 0) text = fmt::format("workspace<={}", limits.workspace_bytes);
  const auto add = [&](const char* word) { text += (text.empty() ? "" : ",") + std::string(word); };
  if (limits.deterministic) add("deterministic");
  if (limits.batch_invariant) add("batch-invariant");
  return text;
}

void check(const Limits& limits) {
  if (limits.workspace_bytes < Limits::none) {
    fail(Errc::invalid_argument, "workspace limit of {} bytes: must be at least 0, or -1 for no limit",
         limits.workspace_bytes);
  }
}

std::string print(const MemorySpace& space) {
  const std::string kind(word(space.kind));
  return space.kind == MemoryKind::host ? kind : kind + ":" + std::to_string(space.ordinal);
}

MemorySpace parse_memory_space(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  MemorySpace space{.kind = parse<MemoryKind>(text.substr(0, colon))};
  if (colon == text.size()) return space;
  space.ordinal = number_in<std::int32_t>(text.substr(colon + 1)).value_or(-1);
  if (space.kind == MemoryKind::host || space.ordinal < 0)
    fail(Errc::invalid_argument, "memory '{}': host, or cuda or hip with a GPU's number as in cuda:0", text);
  return space;
}

}  // namespace kscout
