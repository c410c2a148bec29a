#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include <fmt/format.h>

#include <kscout/error.h>

#include "capi/capi.h"
#include "core/printable.h"

namespace kscout::capi {

namespace {

static_assert(KSCOUT_INVALID_ARGUMENT == 1 + static_cast<int>(Errc::invalid_argument));
static_assert(KSCOUT_NOT_FOUND == 1 + static_cast<int>(Errc::not_found));
static_assert(KSCOUT_UNSUPPORTED == 1 + static_cast<int>(Errc::unsupported));
static_assert(KSCOUT_CORRUPT_DATA == 1 + static_cast<int>(Errc::corrupt_data));
static_assert(KSCOUT_DEVICE_FAILURE == 1 + static_cast<int>(Errc::device_failure));

/// Longer messages are truncated.
constexpr std::size_t kMessageBytes = 2048;
/// Allocated at the thread's first error. An array here would not do: a library that is loaded at run time
/// gets its thread-local storage from about a kilobyte that all such libraries share (tests/exports).
thread_local std::unique_ptr<char[]> message_buffer;
thread_local const char* last_error = "";

void remember_text(std::string_view text) noexcept try {
  if (!message_buffer) message_buffer = std::make_unique<char[]>(kMessageBytes);
  std::string shown = printable(shortened(text)).substr(0, kMessageBytes - 1);
  shown.resize(shown.size() - cut_character_bytes(shown));
  std::memcpy(message_buffer.get(), shown.c_str(), shown.size() + 1);
  last_error = message_buffer.get();
} catch (const std::bad_alloc&) {
  last_error = "memory is exhausted, and so the message of this error is lost";
}

}  // namespace

kscout_status remember() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    remember_text(error.what());
    return 1 + static_cast<kscout_status>(error.code());
  } catch (const std::bad_alloc&) {
    last_error = "memory is exhausted: raise the process's limit, or give a smaller problem, family or file";
  } catch (const std::exception& error) {
    remember_text(error.what());
  } catch (...) {
    remember_text("an exception of unknown type");
  }
  return KSCOUT_FAILED;
}

void refuse_null(const void* pointer, std::string_view argument) {
  if (!pointer) throw Error(Errc::invalid_argument, fmt::format("argument '{}' is NULL", argument));
}

void refuse_reserved(std::span<const std::int64_t> fields, std::int32_t field32, std::string_view what,
                     std::string_view init) {
  const auto used = [](std::int64_t value) { return value != 0; };
  if (field32 == 0 && !std::ranges::any_of(fields, used)) return;
  throw Error(Errc::invalid_argument,
              fmt::format("a reserved field of the {} is not 0; start with {}", what, init));
}

void store_text(std::string_view from, char* to, std::size_t size, std::size_t* needed) {
  if (needed) *needed = from.size() + 1;
  if (size > 0) refuse_null(to, "text");
  if (size <= from.size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("the text needs {} bytes, the buffer has {}; call with size 0 first",
                            from.size() + 1, size));
  }
  std::memcpy(to, from.data(), from.size());
  to[from.size()] = '\0';
}

}  // namespace kscout::capi

using namespace kscout;

int32_t kscout_abi_version(void) { return KSCOUT_ABI_VERSION; }

const char* kscout_version(void) { return KSCOUT_VERSION; }

const char* kscout_status_word(kscout_status status) {
  if (status == KSCOUT_OK) return "ok";
  if (status == KSCOUT_FAILED) return "failed";
  if (status < KSCOUT_OK || status > KSCOUT_FAILED) return "";
  return word(static_cast<Errc>(status - 1)).data();  // words are literals, so a 0 byte follows
}

const char* kscout_last_error(void) { return capi::last_error; }
