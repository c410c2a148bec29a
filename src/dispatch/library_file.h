#pragma once
/// \file
/// The shared object of a kernel library: checked, tried in a process of its own, then opened for good.
///
///     const kscout_kernel_library& library = open_library_file(index);
#include <kscout/kernel_library.h>

#include "dispatch/library_index.h"

namespace kscout {

/// Opens the library of an index and calls its `open`. It stays open until the process ends.
///
/// Before anything of it runs here, the file's checksum is compared and a forked child loads it first: a
/// constructor that crashes, exits or hangs (longer than 30 s, or KSCOUT_LIBRARY_SECONDS) ends the child, and
/// here becomes an error. The child does what dlopen does and calls kscout_kernel_library_get, nothing else.
/// The fork costs the more, the more memory the process uses. Errors: not_found (no such file),
/// corrupt_data (checksum, no shared object, missing symbol, another ABI or backend than the index says),
/// device_failure (crash or hang while loading, `open` failed).
const kscout_kernel_library& open_library_file(const LibraryIndex& index);

}  // namespace kscout
