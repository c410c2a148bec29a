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
  /// Number of devices; each worker of a sweep measures on one. Queries the driver in a child process.
  virtual int devices() { return 1; }
  /// Chooses and opens one of them in this process, before the first prepare().
  virtual void open_device(int /*ordinal*/) {}
  /// Whether configs of a provider have slow parts that Backend::prepare_ahead does.
  virtual bool prepares_ahead(std::string_view /*provider*/) { return false; }
  /// Makes the operands and the reference of a problem, in a backend that has its own. Returns what checks
  /// the newest call's result; null: the operation's operands and reference apply.
  virtual std::unique_ptr<Reference> open_problem(const Problem& /*problem*/, std::uint64_t /*seed*/) {
    return nullptr;
  }
};
/// Null for a backend whose memory is the CPU's. Throws the errors of backend().
MeasuredBackend* measured_backend(std::string_view name);
/// The instruments of a MeasuredBackend, or the CPU's for another backend in the CPU's memory. Throws
/// unsupported for all others.
Instruments& instruments_of(Backend& backend);

}  // namespace kscout
