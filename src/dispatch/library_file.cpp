#include "dispatch/library_file.h"

#include <string>

#include <dlfcn.h>

#include "core/child_process.h"
#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"

namespace kscout {

namespace {

constexpr const char* kLimitVariable = "KSCOUT_LIBRARY_SECONDS";

/// How long a library may take to load.
double limit_seconds() {
  constexpr double kDefault = 30, kMost = 86400;
  const std::string text = environment(kLimitVariable);
  if (text.empty()) return kDefault;
  const auto seconds = parse_field<double>(kLimitVariable, text);
  if (!(seconds > 0 && seconds <= kMost)) {
    fail(Errc::invalid_argument, "{}='{}': seconds, more than 0 and at most {}", kLimitVariable, text, kMost);
  }
  return seconds;
}

void check_checksum(const LibraryIndex& index) {
  if (is_absent(index.library)) {
    fail(Errc::not_found, "{}: its library {} is not there", index.file.string(), index.library.string());
  }
  const std::uint64_t found = text_hash(read_file(index.library));
  if (found == index.checksum) return;
  fail(Errc::corrupt_data, "{}: checksum fnv1a64:{}, but the index {} was written for fnv1a64:{}",
       index.library.string(), hash_digits(found), index.file.string(), hash_digits(index.checksum));
}

kscout_kernel_library_get_function entry_of(void* handle) {
  return reinterpret_cast<kscout_kernel_library_get_function>(dlsym(handle, KSCOUT_KERNEL_LIBRARY_SYMBOL));
}

/// Everything that could crash before a kernel is called. What fails in order is told by the same steps here.
void try_loading(const LibraryIndex& index) {
  const std::string file = index.library.string();
  const ChildResult loaded = in_child(limit_seconds(), [&] {
    if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      if (const auto get = entry_of(handle)) get();
    }
    return std::string("loaded");
  });
  if (loaded.failure.empty()) return;
  fail(Errc::device_failure, "{}: loading it {}{}; rebuild it or remove its index", file, loaded.failure,
       loaded.timed_out ? fmt::format(" ({} sets the limit)", kLimitVariable) : "");
}

void check_library(const LibraryIndex& index, const kscout_kernel_library* library) {
  const std::string file = index.library.string();
  if (!library) fail(Errc::corrupt_data, "{}: {} returned null", file, KSCOUT_KERNEL_LIBRARY_SYMBOL);
  if (library->abi != KSCOUT_KERNEL_ABI) {
    fail(Errc::corrupt_data, "{}: it speaks ABI {}, its index and this program ABI {}: build it again", file,
         library->abi, KSCOUT_KERNEL_ABI);
  }
  if (library->struct_size < sizeof(kscout_kernel_library) || library->kernel_size < sizeof(kscout_kernel) ||
      (library->kernel_count > 0 && !library->kernels)) {
    fail(Errc::corrupt_data, "{}: its structs are smaller than ABI {} says ({} and {} bytes)", file,
         KSCOUT_KERNEL_ABI, library->struct_size, library->kernel_size);
  }
  if (!library->backend || index.backend != library->backend) {
    fail(Errc::corrupt_data, "{}: made for backend '{}', the index says '{}'", file,
         library->backend ? library->backend : "", index.backend);
  }
}

}  // namespace

const kscout_kernel_library& open_library_file(const LibraryIndex& index) {
  check_checksum(index);
  try_loading(index);
  const std::string file = index.library.string();
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail(Errc::corrupt_data, "{}: cannot be loaded: {}", file, dlerror());
  const auto get = entry_of(handle);
  if (!get) fail(Errc::corrupt_data, "{}: exports no {}", file, KSCOUT_KERNEL_LIBRARY_SYMBOL);
  const kscout_kernel_library* const library = get();
  check_library(index, library);
  if (library->open) {
    char text[512] = "";
    if (library->open({text, sizeof text}) != KSCOUT_KERNEL_OK) {
      text[sizeof text - 1] = 0;
      fail(Errc::device_failure, "{}: cannot open its device: {}", file, text);
    }
  }
  return *library;
}

}  // namespace kscout
