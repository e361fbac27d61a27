// The library's only thread: posts sends that are held when their time has come, whatever the program's threads do
// meanwhile.
//
// It exists from the first send that is held until nothing has been held for some time, and in no process in which
// nothing is. While sends are held, or were lately, it looks every half cap at the latest, so that whoever holds need
// not tell it; then it parks, and the next hold costs one system call. It is made by the program's own pthread_create,
// so that tools that follow threads know it, and takes no signal but those of its own faults.
#pragma once

#include <stdint.h>

namespace orrery::preload {

// Finds what making a thread needs. On the control path, without a lock of ours: it asks the loader.
void prepare_release_thread();

// This process could not have the thread: nothing may be held.
bool release_thread_is_refused();

// To be called after a send was held, without a queue's lock. When there can be no thread, everything that is held goes
// at once, and nothing is held from then on. Keeps errno.
void rely_on_release_thread();

// Parked for so long it ends: a program whose own threads have all ended must end. Tests shorten it.
extern uint64_t release_thread_stays_ns;

// In a forked child.
void forget_release_thread_of_parent();

}  // namespace orrery::preload
