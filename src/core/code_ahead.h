#pragma once
/// \file
/// Functions that run after one another, side by side in a section of their own, so that their code can be
/// read before it runs. What other work has pushed out of the caches is otherwise fetched a line at a time,
/// each when the one before it has run.
///
///     KSCOUT_CODE(kscout_choice) inline void first() { ... }
///     KSCOUT_CODE_BOUNDS(kscout_choice);                 // not in a namespace without a name
///     read_ahead(KSCOUT_CODE_OF(kscout_choice));          // core/read_ahead.h
///
/// The linker says where such a section begins and ends, since its name (a word, or a macro that makes one)
/// is an identifier. Its functions are all inline, as members defined in their class are, or none is: GCC
/// keeps the two kinds apart. Of templates GCC before 14 ignores the section.
#include <cstddef>
#include <span>

#if defined(__ELF__)
#define KSCOUT_CODE(name) KSCOUT_CODE_(name)
#define KSCOUT_CODE_(name) __attribute__((section(#name)))
#define KSCOUT_CODE_BOUNDS(name) KSCOUT_CODE_BOUNDS_(name)
#define KSCOUT_CODE_BOUNDS_(name) \
  extern "C" __attribute__((visibility("hidden"))) const std::byte __start_##name[], __stop_##name[]
#define KSCOUT_CODE_OF(name) KSCOUT_CODE_OF_(name)
#define KSCOUT_CODE_OF_(name) std::span<const std::byte>(__start_##name, __stop_##name)
#else
#define KSCOUT_CODE(name)
#define KSCOUT_CODE_BOUNDS(name) static_assert(true)
#define KSCOUT_CODE_OF(name) std::span<const std::byte>()
#endif
