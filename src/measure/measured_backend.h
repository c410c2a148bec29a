#pragma once
/// \file
/// Finds the instruments of a backend.
///
///     Instruments& tools = instruments_of(backend("cuda"));
#include <cstdint>
#include <memory>

#include <kscout/backend.h>

#include "instruments/instruments.h"
#include "op/reference.h"

namespace kscout {

/// A backend with its own instruments, because its memory is not the CPU's.
class MeasuredBackend : public Backend {
 public:
  virtual Instruments& instruments() = 0;
  /// Makes the operands and the reference of a problem, in a backend that has its own. Returns what checks
  /// the newest call's result; null: the operation's operands and reference apply.
  virtual std::unique_ptr<Reference> open_problem(const Problem& /*problem*/, std::uint64_t /*seed*/) {
    return nullptr;
  }
};
/// The instruments of a MeasuredBackend, or the CPU's for another backend in the CPU's memory. Throws
/// unsupported for all others.
Instruments& instruments_of(Backend& backend);

}  // namespace kscout
