#include <algorithm>
#include <cstdlib>

#include <kscout/registry.h>

#include "backend/library/library_backend.h"
#include "core/fail.h"
#include "core/names.h"

namespace kscout {

namespace {

constexpr std::string_view kIndexSuffix = ".kscout-library.json";

void add_indexes(const std::filesystem::path& entry, std::vector<std::filesystem::path>& found) {
  std::error_code error;
  if (!std::filesystem::is_directory(entry, error)) {
    found.push_back(entry);
    return;
  }
  const std::size_t first = found.size();
  for (const auto& file : std::filesystem::directory_iterator(entry, error)) {
    if (file.path().filename().string().ends_with(kIndexSuffix)) found.push_back(file.path());
  }
  if (error)
    fail(Errc::device_failure, "KSCOUT_LIBRARY_PATH: cannot list {}: {}", entry.string(), error.message());
  std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
}

}  // namespace

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

std::vector<std::filesystem::path> library_search_path() {
  std::vector<std::filesystem::path> found;
  const char* const listed = std::getenv("KSCOUT_LIBRARY_PATH");
  std::string_view rest = listed ? listed : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) add_indexes(std::filesystem::path(rest.substr(0, end)), found);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return found;
}

}  // namespace kscout
