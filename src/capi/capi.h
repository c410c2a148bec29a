#pragma once
/// \file
/// What the C functions share: exceptions become statuses, plain structs become the library's types.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/dispatcher.h>
#include <kscout/kscout.h>
#include <kscout/selector.h>

namespace kscout::capi {

/// The status for the exception in flight; its message becomes the thread's last error.
kscout_status remember() noexcept;

/// Runs `body`; KSCOUT_OK, or remember() when it threw.
template <class F>
kscout_status guarded(F&& body) noexcept {
  try {
    body();
    return KSCOUT_OK;
  } catch (...) {
    return remember();
  }
}

/// Throws invalid_argument naming the argument when it is null.
void refuse_null(const void* pointer, std::string_view argument);
template <class T>
T& required(T* pointer, std::string_view argument) {
  refuse_null(pointer, argument);
  return *pointer;
}

/// Throws invalid_argument when a reserved field of a struct is in use; `init` sets them all to 0.
void refuse_reserved(std::span<const std::int64_t> fields, std::int32_t field32, std::string_view what,
                     std::string_view init);

/// `text`, or what stands for NULL.
inline std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

/// The enumerator of a number; throws invalid_argument naming it and the words.
template <WordEnum E>
E enumerator(std::int32_t value);

/// Throws invalid_argument for a number that is no enumerator or a reserved field in use; sizes are left to
/// check(problem).
GemmProblem problem_of(const kscout_gemm* problem);
void store(const GemmProblem& from, kscout_gemm& to) noexcept;
ConvProblem problem_of(const kscout_conv* problem);
void store(const ConvProblem& from, kscout_conv& to) noexcept;

/// Throws invalid_argument for a config that no function of this library filled.
KernelConfig config_of(const kscout_config* config);
void store(const KernelConfig& from, kscout_config& to) noexcept;
void store(const Choice& from, kscout_choice& to) noexcept;

/// Copies a text and its length out as kscout_gemm_print tells. Throws invalid_argument when it does not fit.
void store_text(std::string_view from, char* to, std::size_t size, std::size_t* needed);

}  // namespace kscout::capi

/// Handles are these; C sees their names only.
struct kscout_device {
  kscout::Device device;
};
struct kscout_selector {
  kscout::Selector selector;
};
struct kscout_registry {
  kscout::Registry registry;
};
struct kscout_dispatcher {
  kscout::Dispatcher dispatcher;
};
