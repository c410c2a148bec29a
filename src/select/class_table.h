#pragma once
/// \file
/// Stores which configs give a row of C equal bits whatever M is, and looks them up.
///
///     const auto stored = read_classes(file);                       // one class per weight
///     const ClassTable table(stored, {device_identity(device), "cuda", library_release(backend)}, file);
///     std::string why;
///     const auto members = table.members(problem, why);             // fastest first; empty: `why` says why
///
/// A weight is a GEMM without its M. `kscout classes` measures (search/measure_classes.h) which configs of a
/// weight belong together, and stores the class that choices keep to. Columns: docs/formats/classes.md.
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/backend.h>
#include <kscout/config.h>

namespace kscout {

/// A config of a class.
struct ClassMember {
  std::string config;  ///< its name
  /// By position in StoredClass::m: 1 where the config computed the rows of the class.
  std::vector<std::uint8_t> equal;
  /// By position in StoredClass::m: median time in microseconds; NaN: not timed.
  std::vector<double> time_us;
};

/// The class of a weight to which choices keep, and the conditions under which it was measured.
struct StoredClass {
  std::string weight;           ///< one-line form of the problem with M = 1
  std::string device;           ///< device_identity()
  std::string backend;          ///< its name
  std::string library;          ///< library_release()
  std::string bits;             ///< digest of the rows that the members computed
  std::int64_t classes = 0;     ///< number of classes among the measured configs
  std::int64_t every = 0;       ///< m has every M from its first to this one
  std::vector<std::int64_t> m;  ///< the measured M, ascending
  std::vector<ClassMember> members;

  /// Whether a member computes the rows of the class at an M. At a measured M: whether it did. Between two of
  /// them: whether it did at both, and at every M of the upper half of those up to `every`, which have all
  /// remainders of M by a tile's rows.
  bool holds(const ClassMember& member, std::int64_t of_m) const;
};

/// The problem with another M. Throws unsupported for another operation than GEMM.
Problem with_m(ProblemRef problem, std::int64_t m);
/// The GEMM with M = 1 and weight 1: equal for all calls of one weight. Throws unsupported for a
/// problem of which rows cannot be compared over M: another operation, A by columns, a batch, or a C that is
/// read.
Problem without_m(ProblemRef problem);

/// What the bits of a backend's kernels depend on: "cublaslt_version=130100 kscout=0.1.0".
std::string library_release(Backend& backend);

/// The default file, next to the user's models: $XDG_DATA_HOME/kscout/classes.json or
/// ~/.local/share/kscout/classes.json.
std::filesystem::path default_class_file();
/// `named`, else KSCOUT_CLASSES, else the default file.
std::filesystem::path class_file(const std::filesystem::path& named);

/// Empty for a missing file. Throws corrupt_data naming the file, unsupported for a newer version.
std::vector<StoredClass> read_classes(const std::filesystem::path& file);
/// Adds classes to a file, or replaces those of the same weight and device. Throws device_failure.
void store_classes(const std::filesystem::path& file, std::span<const StoredClass> classes);

/// The conditions under which classes are used; an empty text is not compared.
struct ClassOrigin {
  std::string device, backend, library;
};

/// A member of a class with its measured time.
struct ClassChoice {
  KernelConfig config;
  double time_us;  ///< at the smallest timed M that is at least the problem's; NaN: not timed there
};

class ClassTable {
 public:
  ClassTable() = default;
  /// `file` is named in reasons.
  ClassTable(std::vector<StoredClass> stored, ClassOrigin here, std::filesystem::path file);

  /// The configs of the weight's class that hold at the problem's M, fastest first. Empty when there is none:
  /// `why` then says what to measure.
  std::vector<ClassChoice> members(ProblemRef problem, std::string& why) const;

 private:
  std::map<std::string, StoredClass, std::less<>> stored_;  ///< by weight
  ClassOrigin here_;
  std::filesystem::path file_;
};

}  // namespace kscout
