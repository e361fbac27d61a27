// TCP over IPv4, as small as hostnccl needs it. Blocking helpers take a deadline; nothing here is shared between
// threads.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace orrery::hostnccl {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

std::string to_text(const sockaddr_in& address);

// The address of the first interface `selection` admits (NCCL_SOCKET_IFNAME: a comma-separated list of prefixes, "="
// first for exact names,
// "^" first to exclude). Without a selection: the first interface that is up and neither loopback nor docker, else
// loopback.
Result<sockaddr_in> choose_local_address(const std::string& selection);
// "host:port", host a name or an IPv4 address.
Result<sockaddr_in> parse_address(const std::string& text);

// A listening, non-blocking socket; `address` is bound (port 0: any) and updated to what it got.
Result<UniqueFd> listen_on(sockaddr_in& address);
// Waits for a connection. kUnavailable at the deadline.
Result<UniqueFd> accept_before(int listener, Deadline deadline);
// Starts a non-blocking connect with TCP_NODELAY set. The socket may already be connected. kRefused: nobody listens
// there. kUnavailable: no route now.
Result<UniqueFd> start_connect(const sockaddr_in& address);
// Connects, trying again while nobody listens there yet, until the deadline.
Result<UniqueFd> connect_before(const sockaddr_in& address, Deadline deadline);
// Makes a silent peer host fail the socket after about `timeout`, idle or not.
void bound_silence(int fd, std::chrono::seconds timeout);
// TCP_NODELAY and O_NONBLOCK for an accepted socket.
void prepare_accepted(int fd);

// Move exactly `bytes`. kUnavailable: the peer closed, or the deadline passed.
Status send_all(int fd, const void* data, size_t bytes, Deadline deadline);
Status receive_all(int fd, void* data, size_t bytes, Deadline deadline);

}  // namespace orrery::hostnccl
