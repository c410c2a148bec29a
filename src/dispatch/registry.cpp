#include <algorithm>

#include <kscout/registry.h>

#include "backend/library/library_backend.h"
#include "backend/library/library_index.h"
#include "core/fail.h"
#include "core/names.h"

namespace kscout {

Registry Registry::here() {
  Registry registry;
  registry.add(kscout::backend("cpu"));
  try {
    registry.add(kscout::backend("cuda"));
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;  // the machine has no such GPU
  }
  for (const auto& index : library_search_path()) registry.add_library(index);
  return registry;
}

void Registry::add(std::shared_ptr<Backend> backend) {
  for (const auto& one : backends_) {
    if (one->name() == backend->name()) {
      fail(Errc::invalid_argument, "a backend named '{}' exists already; give a kernel library another name",
           backend->name());
    }
  }
  backends_.push_back(std::move(backend));
}

void Registry::add(Backend& backend) { add({std::shared_ptr<Backend>(), &backend}); }

Backend& Registry::add_library(const std::filesystem::path& index) {
  auto library = std::make_shared<LibraryBackend>(read_library_index(index));
  for (const auto& one : backends_) {
    if (one->name() == library->name()) continue;  // add() refuses the name
    if (const auto* const other = dynamic_cast<const LibraryBackend*>(one.get()))
      library->check_apart(*other);
  }
  add(std::move(library));
  return *backends_.back();
}

Backend& Registry::backend(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const auto& one : backends_) names.push_back(one->name());
  return *backends_[index_of_word("backend", name, names)];
}

std::vector<Registry::Kernels> Registry::kernels(const Signature& signature, std::string_view rules) const {
  std::vector<Kernels> found;
  std::string reasons;
  std::optional<Error> wrong;  // the rule set may belong to another backend
  for (const auto& one : backends_) {
    try {
      found.push_back({one.get(), one->family(signature, rules)});
    } catch (const Error& error) {
      if (error.code() == Errc::invalid_argument && !wrong) wrong = error;
      if (error.code() != Errc::unsupported && error.code() != Errc::invalid_argument) throw;
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", one->name(), error.what());
    }
  }
  if (found.empty() && wrong) throw Error(*wrong);
  if (found.empty()) {
    fail(Errc::unsupported, "no kernel here takes {} {} {}: {}", word(signature.op), word(signature.dtype_a),
         word(signature.layout), reasons.empty() ? "there is no backend" : reasons);
  }
  return found;
}

Registry::Support Registry::supports(ProblemRef problem, const KernelConfig& config,
                                     const std::optional<MemorySpace>& space) const {
  const std::string_view provider = config.space ? config.space->provider : "";
  Support support;
  for (const auto& one : backends_) {
    if (!one->executes(provider)) continue;
    if (space && one->space() != *space) continue;
    std::string refusal = one->refusal(problem, config);
    if (refusal.empty()) return {one.get(), {}};
    support.refusal +=
        fmt::format("{}{}: {}", support.refusal.empty() ? "" : "; ", one->name(), std::move(refusal));
  }
  if (support.refusal.empty()) {
    support.refusal = fmt::format("no backend here executes configs of provider '{}'{}", provider,
                                  space ? " on operands in memory " + print(*space) : "");
  }
  return support;
}

std::vector<std::filesystem::path> library_search_path() { return library_index_files(); }

}  // namespace kscout
