#pragma once
/// \file
/// Adds up what all calls of an application's problems take: with a library, with a model's choices, and with
/// the fastest measured configs.
///
///     OwnRequest request{.problems = problems, .against = Against::openblas};
///     const OwnResult result = evaluate_own(request, "models/mine", measured);
///     result.all.today_us / result.all.model_us;      // times as fast as today
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/measurement.h>

#include "measure/load_watch.h"
#include "op/problem_sets.h"

namespace kscout {

/// What an application uses today.
enum class Against : std::uint8_t { default_config, openblas, onednn, cublaslt, cudnn };
template <>
struct EnumWords<Against> {
  static constexpr std::string_view what = "comparison";
  static constexpr std::array<std::string_view, 5> words = {"default", "openblas", "onednn", "cublaslt",
                                                            "cudnn"};
};

/// Whether it is a library of the CPU, which is timed after the sweep.
bool is_blas(Against against);

/// NVIDIA's library for an operation, whose first suggestion an application uses today.
constexpr Against library_of(Op op) { return op == Op::gemm ? Against::cublaslt : Against::cudnn; }

/// Sums over problems, each with its calls. Only problems of which every time is known count.
struct CallTimes {
  std::size_t problems = 0;
  double calls = 0;
  double today_us = 0;  ///< NaN: the comparison was refused
  double model_us = 0, oracle_us = 0;
  /// With the fastest of the library's first eight suggestions of each problem, as cudnn.benchmark finds it;
  /// nothing for other comparisons.
  std::optional<double> best_of_8_us = {};
  std::optional<double> before_us = {};  ///< with the choices of the model before; nothing without one

  /// How many times as fast as today.
  double speedup() const noexcept { return today_us / model_us; }
};

struct OwnResult {
  std::string today;  ///< what today_us is of: "openblas", "the default config of rule set 'default'"
  /// Of a library of the CPU: its file, its release and, where the library says it, the kernels that it chose
  /// for this CPU (Backend::versions() of blas_backend()).
  std::map<std::string, std::string> library = {};
  /// Why a library of the CPU is not compared, with the remedy; empty when it is. The sums are then those of
  /// the sweep.
  std::string refused = {};
  std::size_t given = 0;       ///< problems of the operation
  std::size_t measured = 0;    ///< of them
  std::size_t trained_on = 0;  ///< measured ones of sizes that the model was trained on
  std::size_t left_out = 0;    ///< measured ones that `all` lacks
  std::string reason = {};     ///< why the first of those is left out
  CallTimes all;
  CallTimes held_out;  ///< those that the model was not trained on
};

struct OwnRequest {
  std::vector<Problem> problems;  ///< of one operation, each once; the weight is the number of calls
  Against against = Against::default_config;
  std::string rules;  ///< whose default config counts as today
  /// Libraries of the CPU are compared only while other processes keep at most this share of the CPUs busy.
  double max_load = kMaxBusyShare;
  std::string before;  ///< model folder; empty: none
  double held_out = 0;
  std::uint64_t seed = 1;
  SplitBy by = SplitBy::sizes;
  std::function<Load(const std::function<void()>&)> load_during = kscout::load_during;  ///< tests replace it
};

/// Removes the problems whose signature no config of a rule set computes on a device. Returns why the first
/// one is removed; empty when all stay. Throws invalid_argument for an unknown rule set.
std::string leave_out_uncomputable(std::vector<Problem>& problems, const std::string& provider,
                                   const Device& device, const std::string& rules);

/// The table's rows of these problems, with the weights of the list.
MeasurementTable rows_of_problems(const MeasurementTable& table, const std::vector<Problem>& problems);

/// Evaluates a model on the caller's own problems among the measurements. The times of kernels are those of
/// the table. Libraries of the CPU are timed here, interleaved with the model's choice and the fastest
/// config, all three times anew; on a busy machine the comparison is refused, because the library and the
/// kernels lose different shares of their speed there. Throws unsupported when the library is missing.
OwnResult evaluate_own(const OwnRequest& request, const std::filesystem::path& model,
                       const MeasurementTable& table);

/// Throws unsupported when a comparison is not possible for an operation on a backend, before anything is
/// measured: a library that is not installed, or one that computes something else.
void check_against(Against against, Op op, std::string_view backend);

}  // namespace kscout
