#pragma once
/// \file
/// A fixed piece of work for one core, to notice when something else slows it down.
///
///     const double us = cpu::probe_core();   // about 1.5 us; compare with earlier ones
namespace kscout::cpu {

/// Microseconds of the same few thousand loads and stores every time, on the calling thread's core. A core
/// parts its store queue between its hardware threads as soon as both are awake, so this loop takes 2.3 times
/// as long while a neighbour runs, whatever the neighbour does; alone it scatters by 2 % (Zen 3; 6x16 FMA
/// tiles in the level-1 cache show the same neighbour with 3 to 20 %). A loaded memory bus does not show.
double probe_core() noexcept;

}  // namespace kscout::cpu
