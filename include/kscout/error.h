#pragma once
/// \file
/// Defines the one exception type that leaves the library.
///
///     try { const auto family = kscout::enumerate(request); }
///     catch (const kscout::Error& error) { if (error.code() == kscout::Errc::not_found) ...; }
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kscout {

/// The kinds of errors that a program can handle. The message is for people: it names the value, the limit
/// and the remedy.
enum class Errc : std::uint8_t {
  invalid_argument,  ///< can never work; fix the call
  not_found,         ///< a named file, device, model or kernel is absent
  unsupported,       ///< a valid request that no code here handles
  corrupt_data,      ///< bytes do not match their format or checksum
  device_failure,    ///< the operating system, a driver or a kernel reported an error
};

/// The word for a code, as printed in logs: "invalid_argument", ...
std::string_view word(Errc code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Errc code() const noexcept { return code_; }

 private:
  Errc code_;
};

}  // namespace kscout
