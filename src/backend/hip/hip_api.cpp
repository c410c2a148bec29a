#include "backend/hip/hip_api.h"

#include <cstdlib>

#include <dlfcn.h>

#include "core/fail.h"

namespace kscout::hip {

namespace {

/// The newest first; the plain name is that of a development package.
constexpr const char* kNames[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                                  "/opt/rocm/lib/libamdhip64.so"};

void* open_library() {
  const std::filesystem::path named = named_library();
  if (!named.empty()) {
    if (void* const library = dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    fail(Errc::unsupported, "backend hip: KSCOUT_HIP_LIBRARY: {}", dlerror());
  }
  for (const char* const name : kNames) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  fail(Errc::unsupported,
       "backend hip: no libamdhip64.so here; install ROCm 6.0 or later, or name it by KSCOUT_HIP_LIBRARY");
}

template <class F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (!function)
    fail(Errc::unsupported, "backend hip: the HIP runtime has no {}; ROCm 6.0 or later is needed", name);
}

Functions load() {
  void* const library = open_library();
  Functions f{};
  find(library, "hipInit", f.Init);
  find(library, "hipRuntimeGetVersion", f.RuntimeGetVersion);
  find(library, "hipDriverGetVersion", f.DriverGetVersion);
  find(library, "hipGetDeviceCount", f.GetDeviceCount);
  find(library, "hipGetDevicePropertiesR0600", f.GetDevicePropertiesR0600);
  find(library, "hipSetDevice", f.SetDevice);
  find(library, "hipMalloc", f.Malloc);
  find(library, "hipFree", f.Free);
  find(library, "hipMemcpyAsync", f.MemcpyAsync);
  find(library, "hipMemcpy2DAsync", f.Memcpy2DAsync);
  find(library, "hipMemsetAsync", f.MemsetAsync);
  find(library, "hipMemset2DAsync", f.Memset2DAsync);
  find(library, "hipEventCreate", f.EventCreate);
  find(library, "hipEventRecord", f.EventRecord);
  find(library, "hipEventSynchronize", f.EventSynchronize);
  find(library, "hipEventElapsedTime", f.EventElapsedTime);
  find(library, "hipStreamSynchronize", f.StreamSynchronize);
  find(library, "hipStreamQuery", f.StreamQuery);
  find(library, "hipGetLastError", f.GetLastError);
  find(library, "hipGetErrorString", f.GetErrorString);
  return f;
}

}  // namespace

std::filesystem::path named_library() {
  const char* const named = std::getenv("KSCOUT_HIP_LIBRARY");
  return named ? named : "";
}

const Functions& api() {
  static const Functions loaded = load();
  return loaded;
}

void check(Status status, const char* what) {
  if (status == kSuccess) return;
  fail(Errc::device_failure, "backend hip: {}: {} (hipError {})", what, api().GetErrorString(status), status);
}

}  // namespace kscout::hip
