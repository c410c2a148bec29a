#pragma once
/// \file
/// Replaces this program by kscout-lab, and helps to start other programs.
///
///     return start_sibling(argv);
#include <string>
#include <string_view>

#include <kscout/error.h>

namespace kscout::cli {

/// Packages have to be installed before this program can do its work. --format json reports it as
/// "missing_package", which Python raises as an ImportError.
class MissingPackage : public Error {
 public:
  explicit MissingPackage(const std::string& message) : Error(Errc::not_found, message) {}
};

/// Quotes a word for a shell where needed.
std::string shell_word(std::string_view text);

/// Replaces this process by kscout-lab in the same folder, with the same arguments. Where the loader would
/// not find the libraries of Arrow and LightGBM, those in the wheels of the Python that KSCOUT_PYTHON names,
/// else of python3, are used. Throws MissingPackage when they are nowhere, not_found when kscout-lab is not
/// there.
[[noreturn]] void start_sibling(char** argv);

}  // namespace kscout::cli
