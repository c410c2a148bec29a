#include "generate/cutlass_root.h"

#include <vector>

#include "core/fail.h"
#include "core/files.h"
#include "core/log.h"

namespace kscout {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWheel = "cutlass_library/source/include";  // within the wheel

/// Places below a root where the headers may be.
std::vector<fs::path> places_below(const fs::path& root) {
  std::vector<fs::path> places = {root / "include", root, root / "source/include", root / kWheel};
  std::error_code error;
  for (const auto& python : fs::directory_iterator(root / "lib", error)) {
    if (python.path().filename().string().starts_with("python"))
      places.push_back(python.path() / "site-packages" / kWheel);
  }
  return places;
}

}  // namespace

fs::path find_cutlass(const std::string& root) {
  std::vector<fs::path> roots;
  if (!root.empty()) {
    roots = {root};
  } else {
    for (const char* const variable : {"CUTLASS_PATH", "VIRTUAL_ENV"}) {
      if (const std::string value = environment(variable); !value.empty()) roots.emplace_back(value);
    }
    roots.emplace_back("/usr");
  }
  std::string looked;
  for (const fs::path& one : roots) {
    for (const fs::path& place : places_below(one)) {
      if (!is_absent(place / "cutlass/version.h")) return place;
    }
    looked += (looked.empty() ? "" : ", ") + one.string();
  }
  fail(Errc::not_found,
       "CUTLASS is not below {}: name a checkout with --cutlass-root, or install the wheel nvidia-cutlass "
       "(pip install --no-deps nvidia-cutlass)",
       looked);
}

}  // namespace kscout
