#pragma once
/// \file
/// Finds the instruments of a backend.
///
///     Instruments& tools = instruments_of(backend("cuda"));
#include <kscout/backend.h>

#include "instruments/instruments.h"

namespace kscout {

/// A backend with its own instruments, because its memory is not the CPU's.
class MeasuredBackend : public Backend {
 public:
  virtual Instruments& instruments() = 0;
};
/// The instruments of a MeasuredBackend, or the CPU's for another backend in the CPU's memory. Throws
/// unsupported for all others.
Instruments& instruments_of(Backend& backend);

}  // namespace kscout
