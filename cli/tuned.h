#pragma once
/// \file
/// `kscout export --tuned`: tables of tuned operators of other programs, merged and written again.
#include <string>
#include <vector>

namespace kscout::cli {

/// Merges tables of tuned GEMMs (TunableOp, hipBLASLt) into one of TunableOp. `validators`: lines
/// "NAME,VALUE"; empty: those of the first file that has some. Reports what is left out on stderr.
std::string tuned_tunableop(const std::vector<std::string>& files, std::vector<std::string> validators);
/// The same into a file for HIPBLASLT_TUNING_OVERRIDE_FILE. Throws invalid_argument where the files tell no,
/// or two git versions of hipBLASLt.
std::string tuned_hipblaslt(const std::vector<std::string>& files);
/// Merges find databases of MIOpen.
std::string tuned_find_db(const std::vector<std::string>& files);

}  // namespace kscout::cli
