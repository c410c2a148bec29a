#pragma once
/// \file
/// The one exception type that leaves the library.
///
///     try { const auto family = kscout::enumerate(request); }
///     catch (const kscout::Error& error) { if (error.code() == kscout::Errc::not_found) ...; }
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <kscout/export.h>

namespace kscout {

/// What a program can act on. The message is for the person: it names the value, the limit and the remedy.
enum class Errc : std::uint8_t {
  invalid_argument,  ///< could never work; fix the call
  not_found,         ///< a named file, device, model or kernel is absent
  unsupported,       ///< a fair request that no code here serves
  corrupt_data,      ///< bytes do not match their format or checksum
  device_failure,    ///< the operating system, a driver or a kernel reported an error
};

/// The word for a code, as it stands in logs: "invalid_argument", ...
KSCOUT_API std::string_view word(Errc code) noexcept;

class KSCOUT_API Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Errc code() const noexcept { return code_; }

 private:
  Errc code_;
};

}  // namespace kscout
