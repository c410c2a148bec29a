#pragma once
/// \file
/// Makes a model of cuBLASLt's algorithms work with another release of the library.
///
///     const RefreshedModel fresh = refresh_model("models/gemm_bf16_h200", measure);
///     write_refreshed("models/gemm_bf16_h200", "fresh", fresh);
///
/// A release may number algorithms anew. What a model has learnt are attributes: tile, stages, split-K, ...
/// So each config is looked up by its attributes in the installed release. The traits that the forest reads
/// stay those of the training.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "select/model.h"
#include "select/reference_times.h"
#include "sweep/model_check.h"

namespace kscout {

/// What became of the named algorithms of one family.
struct RefreshedFamily {
  Signature signature;
  std::size_t configs = 0;    ///< named algorithms of the old release
  std::size_t matched = 0;    ///< of these in the new model
  std::size_t unmatched = 0;  ///< the library takes no algorithm of these attributes
  std::size_t wrong = 0;      ///< the sample's results were wrong, or the kernel crashed
};

struct RefreshedModel {
  ModelData data;
  std::int32_t from = 0, to = 0;                         ///< releases (cublasLtGetVersion)
  std::map<std::int32_t, std::int32_t> algorithms = {};  ///< old number: new number
  std::vector<RefreshedFamily> families = {};
  std::vector<std::string> left_out = {};         ///< old names
  std::vector<ReferenceProblem> references = {};  ///< those of the model, with new names
  std::size_t sampled = 0;                        ///< rows of the sample
  std::size_t pairs = 0;                          ///< recorded (problem, config) pairs that the sample timed
  double time_ratio = 0;  ///< geometric mean of their times, new release / recorded; NaN without pairs
};

/// Opens the GPU of backend cuda in this process; `measure` runs the sample in workers. Throws
/// invalid_argument for a model without algorithms of cuBLASLt, of several releases, or of the installed
/// release; unsupported without a GPU.
RefreshedModel refresh_model(const std::filesystem::path& model, const MeasurePlan& measure);

/// Writes a folder with the files of `model` and the new model. Throws invalid_argument when `out` exists and
/// is not an empty folder, device_failure when it cannot be written.
void write_refreshed(const std::filesystem::path& model, const std::filesystem::path& out,
                     const RefreshedModel& fresh);

}  // namespace kscout
