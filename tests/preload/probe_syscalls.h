// Counting and refusing system calls of the probe by seccomp, and what else it asks of the kernel.
#pragma once

namespace orrery::probe {

// From now on every system call of this thread but exit and sigreturn is counted and not carried out (it fails with
// ENOSYS).
void trap_all_syscalls();
// The same for all but those that move the data of a socket, which go through.
void trap_all_but_transfers();
// The same for all but those by which the library looks at its agent four times a second, and by which a thread gives
// way to the holder of a lock.
void trap_all_but_looks_at_agent();
long trapped_syscalls();
// The kernel refuses IP_LOCAL_PORT_RANGE, as before Linux 6.3.
void refuse_port_range();
// No more threads.
void refuse_threads();

// Usable while everything is trapped: prints through the one call that is let through for it, and ends the process.
void print_raw(const char* what, long value);
[[noreturn]] void leave(int status);

void itimerval_start(long microseconds);  // 0 stops

// Of a thread that was joined: the kernel has it in its lists for a moment longer.
void wait_until_gone(int thread);

}  // namespace orrery::probe
