// TCP between two addresses of a network namespace of the probe's own, so that source ports, plans and counters can be
// tried without a network.
#pragma once

#include <string>

namespace orrery::probe {

// Connections are made from 10.77.0.1 to 10.77.0.2:5000.

// Puts the process into a network namespace with those addresses. Exits with 77 where that is not possible.
void enter_network();

struct Pair {
  int client, server;
};
// One blocking connection in that namespace.
Pair connected_pair();

// Makes `count` connections, keeps them open, prints "port N" for each. `how`: "plain"; "old-kernel" (no
// IP_LOCAL_PORT_RANGE); "old-kernel-again" (the same with SO_REUSEADDR, each closed before the next); "bound" (to a
// port of the program's own, 45000 and up); "address" (bound to the address only); "udp" (connected UDP sockets); "v6"
// (v4-mapped); "nonblocking"; "loopback" (127.0.0.1); "dscp" (prints "tos N" and "pace N" too).
void connect_many(int count, const std::string& how);

// Sends 1 MB each way over one connection through every wrapped call, checks it, prints what was moved.
void transfer(void* comm, void (*collective)(void*));

// A collective, then at once a send. `how`: "nonblocking", "dontwait", "blocking", "edge" (epoll, edge-triggered),
// "edge-of-copy" (the epoll set has a dup of the descriptor), "level" (epoll, level-triggered, a megabyte moved by an
// event loop), "accepted" (the accepting side sends), "taken-over" (an event descriptor has got the socket's number),
// "two-bursts" (what is printed is about the second). Prints "eagain N" and "sent ok".
void hold(void* comm, void (*collective)(void*), const std::string& how);

// One connection; prints "pace N", and again after a line on standard input and a send.
void pace();

// Closes the connection's number in a vfork child, then uses it in the parent.
void vfork_closes();

// 1000 sends and receives with every other system call counted.
// Addresses that are not readable, and lengths that are no address's.
void connect_badly();
void close_from();
void count_send_syscalls();

// Connects once per line on standard input.
void connect_when_told();

}  // namespace orrery::probe
