#pragma once
/// \file
/// Orders the rows of a file by signature, then by kernel, then by problem, then by pass.
///
///     write(rows_in_file_order(table, provider));
///
///     FileOrder order(table, provider);                       // of a table that grows while it is read
///     if (order.compare(order.place(a), order.place(b)) < 0) ...
///
/// The columns of a kernel then change only a few hundred times in a file, and sizes ascend. zstd compresses
/// this better than the order of measuring (docs/formats/dataset.md). Equal rows in any order also give equal
/// files, and sorted files can be merged row by row. Signatures and kernels are sorted by their text;
/// problems by the sizes of their weights (n, k of a GEMM), then by their other sizes.
#include <compare>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

#include "op/problem_sets.h"

namespace kscout {

MeasurementTable rows_in_file_order(const MeasurementTable& table, const Provider& provider);

/// Thrown where rows are not in this order, or where it does not decide (two configs of one name): such rows
/// have to be read as a whole.
struct NotInFileOrder {};

class FileOrder {
 public:
  /// `table` outlives this object; its problems and configs may grow.
  FileOrder(const MeasurementTable& table, const Provider& provider) : table_(table), provider_(provider) {}

  struct Place {
    std::uint32_t kernel, problem;
    std::int32_t pass;
    bool operator==(const Place&) const = default;
  };
  Place place(const MeasurementTable::Row& row);
  /// Throws NotInFileOrder for places that differ without an order.
  std::strong_ordering compare(const Place& a, const Place& b) const;

  const Signature& signature(const Place& place) const {
    return signatures_[problems_[place.problem].signature];
  }
  /// The kernel's name.
  const std::string& name(const Place& place) const { return kernels_[place.kernel].name; }

 private:
  struct OfProblem {
    std::uint32_t signature;
    ProblemSizes weights, sizes;
    std::string text;
  };
  struct Kernel {
    std::uint32_t signature;
    std::string name;
  };
  const OfProblem& of_problem(std::uint32_t problem);

  const MeasurementTable& table_;
  const Provider& provider_;
  std::vector<Signature> signatures_;
  std::vector<std::string> signature_texts_;
  std::vector<OfProblem> problems_;
  std::vector<Kernel> kernels_;
  std::unordered_map<std::uint64_t, std::uint32_t> kernel_ids_;  ///< of (signature, config)
};

}  // namespace kscout
