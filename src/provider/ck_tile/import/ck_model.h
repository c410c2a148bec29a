#pragma once
/// \file
/// Makes a model that chooses of a folder of CK Tile's trainer, which only scores rows, and a list of
/// kernels.
///
///     const CkModel made = import_ck_model({.folder = "models/gemm_universal_fp8_gfx950", .kernels = "kernels.txt"});
///     write_file_atomically("gemm.ksf", made.model.bytes());
///
/// The model scores as LightGBM does, bit for bit, and orders the kernels by these scores; equal ones keep
/// the order of the list. It has no confidence, no region, no shortlist and no set-up times, because the
/// folder has nothing to fit them to. A family has the applicability rules of family_of_configs().
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "import/import.h"
#include "select/model.h"

namespace kscout {

struct CkModelRequest {
  std::filesystem::path folder;
  std::filesystem::path kernels;  ///< a list as in provider/kernel_list.h, or Parquet with such a column
  std::string schema = {};        ///< as of read_ck_folder()
  std::optional<Device> device = {};
};

struct CkModel {
  Model model;
  std::size_t repeated = 0;      ///< names of kernels that the list names before
  std::vector<Skipped> skipped;  ///< kernels that the folder's models are not for, or whose names are unknown
};

/// Throws the errors of read_ck_folder() and listed_kernels(), unsupported for a model with an output that no
/// Scale describes, invalid_argument when the list has no kernel of the folder's operation and element type,
/// or kernels of several directions.
CkModel import_ck_model(const CkModelRequest& request);

}  // namespace kscout
