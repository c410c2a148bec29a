#pragma once
/// \file
/// Runs a function of ours on a stack of its own, because the program's thread or fiber may have a few
/// kilobytes only.
///
///     if (!kscout_on_own_stack(open_core, NULL)) pass_on();   // no memory
#ifdef __cplusplus
extern "C" {
#endif

/// Calls function(data) in the calling thread. Returns 0 where there is no memory for the stack; nothing was
/// called then. The function must return, and throw nothing.
int kscout_on_own_stack(void (*function)(void* data), void* data);

#ifdef __cplusplus
}
#endif
