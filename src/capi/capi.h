#pragma once
/// \file
/// Provides what the C functions share: turns exceptions into statuses, and plain structs into the library's
/// types.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/dispatcher.h>
#include <kscout/kscout.h>
#include <kscout/limits.h>
#include <kscout/selector.h>

namespace kscout::capi {

/// Returns the status for the current exception and stores its message as the thread's last error.
kscout_status remember() noexcept;

/// Runs `body`. Returns KSCOUT_OK, or remember() when `body` threw.
template <class F>
kscout_status guarded(F&& body) noexcept {
  try {
    body();
    return KSCOUT_OK;
  } catch (...) {
    return remember();
  }
}

/// Throws invalid_argument, naming the argument, for a null pointer.
void refuse_null(const void* pointer, std::string_view argument);
template <class T>
T& required(T* pointer, std::string_view argument) {
  refuse_null(pointer, argument);
  return *pointer;
}

/// Throws invalid_argument when a reserved field of a struct is not 0; `init` sets all of them to 0.
void refuse_reserved(std::span<const std::int64_t> fields, std::int32_t field32, std::string_view what,
                     std::string_view init);

/// `text`, or `otherwise` for NULL.
inline std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

/// Converts a number to its enumerator; throws invalid_argument naming the number and the valid words.
template <WordEnum E>
E enumerator(std::int32_t value);

/// Throws invalid_argument for a number without an enumerator or a reserved field that is not 0. Does not
/// check sizes: check(problem) does.
GemmProblem problem_of(const kscout_gemm* problem);
void store(const GemmProblem& from, kscout_gemm& to) noexcept;
ConvProblem problem_of(const kscout_conv* problem);
void store(const ConvProblem& from, kscout_conv& to) noexcept;

const Problem& problem_of(const kscout_problem* problem);

/// Throws invalid_argument for a config that no function of this library filled.
KernelConfig config_of(const kscout_config* config);
void store(const KernelConfig& from, kscout_config& to) noexcept;
void store(const Choice& from, kscout_choice& to) noexcept;

/// The limits of a C struct. Throws invalid_argument for unknown bits, and for a number of bytes without its
/// bit.
Limits limits_of(std::int64_t limits, std::int64_t max_workspace_bytes);

/// Copies a text and its length to the caller, as documented for kscout_gemm_print. Throws invalid_argument
/// when the text does not fit.
void store_text(std::string_view from, char* to, std::size_t size, std::size_t* needed);

}  // namespace kscout::capi

/// Types behind the C handles; C code sees only their names.
struct kscout_problem {
  kscout::Problem problem;
};
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
struct kscout_packed_filter {
  kscout::PackedFilter filter;
};
