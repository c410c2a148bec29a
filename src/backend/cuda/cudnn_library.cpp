#include "backend/cuda/cudnn_library.h"

#include <cstdlib>
#include <string_view>

#include <dlfcn.h>

#include "core/fail.h"
#include "core/owners.h"

namespace kscout::cudnn {

namespace {

constexpr std::size_t kOldestCudnn = 90000;

constexpr const char* kCudnnFiles[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9",
                                       "/usr/local/cuda/targets/x86_64-linux/lib/libcudnn.so.9",
                                       "libcudnn.so"};

/// The library, or why there is none.
struct Loaded {
  Functions functions{};
  std::string why;
};

void* open_cudnn(std::string& why) {
  if (const char* const named = std::getenv("KSCOUT_CUDNN")) {
    void* const library = dlopen(safe_loader_name(named).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) why = fmt::format("KSCOUT_CUDNN: {}", dlerror());
    return library;
  }
  for (const char* const file : kCudnnFiles) {
    if (void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  why = "no libcudnn.so.9 here; install cuDNN 9, or name its file by KSCOUT_CUDNN";
  return nullptr;
}

Loaded load_cudnn() {
  Loaded loaded;
  void* const library = open_cudnn(loaded.why);
  if (!library) return loaded;
  Functions& f = loaded.functions;
  const auto find = [&]<class F>(const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (!function && loaded.why.empty())
      loaded.why = fmt::format("the library has no {}; cuDNN 9 or later is needed", name);
  };
  find("cudnnGetVersion", f.GetVersion);
  find("cudnnGetErrorString", f.GetErrorString);
  find("cudnnGetLastErrorString", f.GetLastErrorString);
  find("cudnnCreate", f.Create);
  find("cudnnSetStream", f.SetStream);
  find("cudnnBackendCreateDescriptor", f.BackendCreateDescriptor);
  find("cudnnBackendDestroyDescriptor", f.BackendDestroyDescriptor);
  find("cudnnBackendFinalize", f.BackendFinalize);
  find("cudnnBackendSetAttribute", f.BackendSetAttribute);
  find("cudnnBackendGetAttribute", f.BackendGetAttribute);
  find("cudnnBackendExecute", f.BackendExecute);
  if (loaded.why.empty() && f.GetVersion() < kOldestCudnn)
    loaded.why =
        fmt::format("the library is release {}; {} or later is needed", f.GetVersion(), kOldestCudnn);
  return loaded;
}

const Loaded& loaded_cudnn() {
  static const Loaded once = load_cudnn();
  return once;
}

}  // namespace

const Functions& api() {
  const Loaded& loaded = loaded_cudnn();
  if (!loaded.why.empty()) fail(Errc::unsupported, "cuDNN cannot be used: {}", loaded.why);
  return loaded.functions;
}

std::string missing() { return loaded_cudnn().why; }

std::int32_t version() { return missing().empty() ? static_cast<std::int32_t>(api().GetVersion()) : 0; }

void check(Status status, const char* doing) {
  if (status == kSuccess) return;
  char reason[512] = "";
  api().GetLastErrorString(reason, sizeof reason);
  const std::string_view text(reason);
  fail(status >= kExecutionFailed ? Errc::device_failure : Errc::unsupported, "cuDNN: {}: {}{}{}", doing,
       api().GetErrorString(status), text.empty() ? "" : ", ", text);
}

}  // namespace kscout::cudnn
