// Socket wrappers. A descriptor we do not follow costs one load; one we follow costs a clock reading and a few
// counters.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/preload/attach.h"
#include "agent/preload/flow_table.h"
#include "agent/preload/forward.h"
#include "agent/preload/plan_use.h"
#include "agent/preload/process.h"

namespace orrery::preload {
namespace {

constinit RealLibc<int(int, const sockaddr*, socklen_t)> real_connect{"connect"};
constinit RealLibc<int(int, sockaddr*, socklen_t*)> real_accept{"accept"};
constinit RealLibc<int(int, sockaddr*, socklen_t*, int)> real_accept4{"accept4"};
constinit RealLibc<ssize_t(int, const void*, size_t, int)> real_send{"send"};
constinit RealLibc<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)> real_sendto{"sendto"};
constinit RealLibc<ssize_t(int, const msghdr*, int)> real_sendmsg{"sendmsg"};
constinit RealLibc<ssize_t(int, const void*, size_t)> real_write{"write"};
constinit RealLibc<ssize_t(int, const iovec*, int)> real_writev{"writev"};
constinit RealLibc<ssize_t(int, void*, size_t, int)> real_recv{"recv"};
constinit RealLibc<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)> real_recvfrom{"recvfrom"};
constinit RealLibc<ssize_t(int, msghdr*, int)> real_recvmsg{"recvmsg"};
constinit RealLibc<ssize_t(int, void*, size_t)> real_read{"read"};
constinit RealLibc<ssize_t(int, const iovec*, int)> real_readv{"readv"};
constinit RealLibc<ssize_t(int, void*, size_t, size_t)> real_read_chk{"__read_chk"};
constinit RealLibc<ssize_t(int, void*, size_t, size_t, int)> real_recv_chk{"__recv_chk"};
constinit RealLibc<ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*)> real_recvfrom_chk{"__recvfrom_chk"};
constinit RealLibc<int(int, mmsghdr*, unsigned, int)> real_sendmmsg{"sendmmsg"};
constinit RealLibc<int(int, mmsghdr*, unsigned, int, timespec*)> real_recvmmsg{"recvmmsg"};
constinit RealLibc<ssize_t(int, int, off_t*, size_t)> real_sendfile{"sendfile"};
constinit RealLibc<ssize_t(int, int, off64_t*, size_t)> real_sendfile64{"sendfile64"};
constinit RealLibc<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)> real_splice{"splice"};
constinit RealLibc<int(int, int, ...)> real_fcntl{"fcntl"};
constinit RealLibc<int(int, int, ...)> real_fcntl64{"fcntl64"};
constinit RealLibc<void(int)> real_closefrom{"closefrom"};
constinit RealLibc<int(int)> real_close{"close"};
constinit RealLibc<int(unsigned, unsigned, int)> real_close_range{"close_range"};
constinit RealLibc<int(int)> real_dup{"dup"};
constinit RealLibc<int(int, int)> real_dup2{"dup2"};
constinit RealLibc<int(int, int, int)> real_dup3{"dup3"};
constinit RealLibc<int(int, int)> real_shutdown{"shutdown"};
constinit RealLibc<int(int, int, int, epoll_event*)> real_epoll_ctl{"epoll_ctl"};

// Finds them all before the program starts its own work; see forward.h. Touches nothing else.
__attribute__((constructor)) void find_all() {
  real_connect.get(), real_accept.get(), real_accept4.get();
  real_send.get(), real_sendto.get(), real_sendmsg.get(), real_write.get(), real_writev.get();
  real_recv.get(), real_recvfrom.get(), real_recvmsg.get(), real_read.get(), real_readv.get();
  real_read_chk.get(), real_recv_chk.get(), real_recvfrom_chk.get();
  real_sendmmsg.get(), real_recvmmsg.get(), real_sendfile.get(), real_sendfile64.get(), real_splice.get();
  real_fcntl.get(), real_fcntl64.get(), real_closefrom.get();
  real_close.get(), real_close_range.get(), real_dup.get(), real_dup2.get(), real_dup3.get();
  real_shutdown.get(), real_epoll_ctl.get();
}

void add(uint64_t* counter, uint64_t value) {
  __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

void count_hold(Flow& flow) {
  if (orrery_flow_counters* counters = counters_of(flow)) add(&counters->held_sends, 1);
}

void end_hold(Flow& flow, uint64_t now) {
  const uint64_t held = now - flow.hold.since_ns;
  flow.hold.since_ns = 0;
  orrery_flow_counters* counters = counters_of(flow);
  if (counters != nullptr && held < 100 * attachment.hold_cap_ns) add(&counters->held_ns, held);
}

void account_send(Flow& flow, ssize_t sent, uint64_t before, bool burst) {
  const bool full = sent < 0 && errno == EAGAIN;  // the kernel's buffer is full: the flow is busy
  if (sent <= 0 && !full) return;
  const uint64_t after = now_ns();
  shm::store_relaxed(&flow.last_tx_ns, after);
  orrery_flow_counters* counters = counters_of(flow);
  if (counters == nullptr || sent <= 0) return;
  add(&counters->tx_bytes, static_cast<uint64_t>(sent));
  shm::store_relaxed(&counters->last_tx_ns, after);
  if (burst) {
    shm::store_relaxed(&counters->first_tx_ns, before);
    __atomic_fetch_add(&counters->bursts, 1u, __ATOMIC_RELAXED);
  }
}

template <typename Call>
__attribute__((noinline)) ssize_t send_followed(Flow& flow, int fd, int flags, Call call) {
  const uint64_t now = now_ns();
  tick(now);
  const bool burst = now - shm::load_relaxed(&flow.last_tx_ns) > attachment.flowlet_gap_ns;
  if (flow.paced && !attachment.plan.lease_valid(now)) [[unlikely]]
    lift_pace(flow, fd);
  if (burst && attached() && must_hold(flow, fd, flags, now)) {
    count_hold(flow);
    errno = EAGAIN;
    return -1;
  }
  if (flow.hold.since_ns != 0) end_hold(flow, now);
  const ssize_t sent = call();
  account_send(flow, sent, now, burst);
  return sent;
}

template <typename Call>
inline ssize_t traced_send(int fd, int flags, Call call) {
  const uint32_t state = arm();
  if (state == kOff) return call();
  Flow* flow = flow_of(fd);
  if (flow == nullptr) return call();
  if (state == kAttached) return send_followed(*flow, fd, flags, call);
  if (flow->paced) [[unlikely]]
    lift_pace(*flow, fd);
  tick_sometimes(thread_state.calls_to_tick);
  return call();
}

void count_received(int fd, ssize_t bytes) {
  if (bytes <= 0 || !attached()) return;
  if (Flow* flow = flow_of(fd))
    if (orrery_flow_counters* counters = counters_of(*flow)) add(&counters->rx_bytes, static_cast<uint64_t>(bytes));
}

ssize_t bytes_of(const mmsghdr* messages, int count) {
  ssize_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += messages[i].msg_len;
  return bytes;
}

// sendmmsg counts messages, we count bytes: the call's own answer is kept aside.
int send_messages(int fd, mmsghdr* messages, unsigned count, int flags) {
  int sent = -1;
  const ssize_t bytes = traced_send(fd, flags, [&]() -> ssize_t {
    sent = real_sendmmsg.get()(fd, messages, count, flags);
    return sent < 0 ? -1 : bytes_of(messages, sent);
  });
  return bytes < 0 ? -1 : sent;
}

template <typename Call>
inline ssize_t traced_receive(int fd, int flags, Call call) {
  const ssize_t received = call();
  if (!(flags & (MSG_PEEK | MSG_ERRQUEUE))) count_received(fd, received);
  return received;
}

bool is_followed(int fd) {
  return descriptor(fd) != 0;
}

// Whether the connection of this descriptor is known: connect() is also how one in progress is asked about.
bool is_known_connection(int fd) {
  const Flow* flow = flow_of(fd);
  if (flow == nullptr) return false;
  if (has_local_port(fd, flow->local.port)) return true;
  if (is_own_process()) forget_descriptor(fd);  // its number has come back as another socket
  return false;
}

// connect() to where we follow: TCP that leaves the host.
int connect_followed(int fd, const sockaddr* address, socklen_t bytes, const Endpoint& remote) {
  const int saved = errno;
  if (is_known_connection(fd) || !is_tcp(fd) || !become_interested()) {
    errno = saved;
    return real_connect.get()(fd, address, bytes);
  }
  tick(now_ns());
  Planned planned;
  const uint16_t ordinal = next_ordinal(remote);
  errno = saved;
  const int result = attached() ? connect_planned(fd, address, bytes, remote, ordinal, real_connect.get(), &planned)
                                : real_connect.get()(fd, address, bytes);
  const int error = errno;
  if (result == 0 || error == EINPROGRESS || error == EINTR) {
    add_flow(fd, remote, ORRERY_ROLE_CONNECT, ordinal, planned.entry_index);
    if (Flow* flow = flow_of(fd); flow != nullptr && planned.paced) {
      flow->paced = true;
      note_paced();
    }
  }
  errno = error;
  return result;
}

void follow_accepted(int fd) {
  if (fd < 0) return;
  const int saved = errno;
  if (is_followed(fd)) forget_descriptor(fd);
  sockaddr_storage address;
  socklen_t bytes = sizeof(address);
  Endpoint remote;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
      to_endpoint(reinterpret_cast<sockaddr*>(&address), bytes, &remote) && !is_loopback(remote) && is_tcp(fd) &&
      become_interested()) {
    tick(now_ns());
    add_flow(fd, remote, ORRERY_ROLE_ACCEPT, kNoOrdinal, 0xffffffffu);
  }
  errno = saved;
}

// A vfork child shares our memory and closes descriptors of its own: those are not ours to forget.
void forget_if_ours(int fd) {
  const int saved = errno;
  if (is_own_process()) forget_descriptor(fd);
  errno = saved;
}

int duplicate(int from, int to) {
  if (to >= 0 && is_followed(from) && is_own_process()) copy_descriptor(from, to);
  return to;
}

int duplicate_by(int command, int from, int result) {
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? duplicate(from, result) : result;
}

template <typename Call>
int duplicate_onto(int from, int to, Call call) {
  if (from == to) return call();
  if (is_agent_connection(to) && arm() != kOff) move_connection_away(to);
  if (descriptor(from) == 0 && descriptor(to) == 0) return call();
  const int result = call();
  if (result < 0) return result;
  if (descriptor(to) != 0) forget_if_ours(to);
  return duplicate(from, result);
}

}  // namespace
}  // namespace orrery::preload

using namespace orrery::preload;

ORRERY_EXPORT int connect(int fd, const sockaddr* address, socklen_t bytes) {
  Endpoint remote;
  // The kernel's answer to an unreadable address is EFAULT, and should stay that.
  const bool readable =
      address != nullptr && bytes > 0 && bytes <= sizeof(sockaddr_storage) && is_readable(address, bytes);
  if (!readable || !to_endpoint(address, bytes, &remote) || is_loopback(remote)) {
    const int result = real_connect.get()(fd, address, bytes);
    if (result == 0 && is_followed(fd)) forget_if_ours(fd);
    return result;
  }
  return connect_followed(fd, address, bytes, remote);
}

ORRERY_EXPORT int accept(int fd, sockaddr* address, socklen_t* bytes) {
  const int accepted = real_accept.get()(fd, address, bytes);
  follow_accepted(accepted);
  return accepted;
}

ORRERY_EXPORT int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  const int accepted = real_accept4.get()(fd, address, bytes, flags);
  follow_accepted(accepted);
  return accepted;
}

ORRERY_EXPORT ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  return traced_send(fd, flags, [=] { return real_send.get()(fd, data, bytes, flags); });
}

ORRERY_EXPORT ssize_t sendto(int fd, const void* data, size_t bytes, int flags, const sockaddr* address,
                             socklen_t address_bytes) {
  return traced_send(fd, flags, [=] { return real_sendto.get()(fd, data, bytes, flags, address, address_bytes); });
}

ORRERY_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return traced_send(fd, flags, [=] { return real_sendmsg.get()(fd, message, flags); });
}

ORRERY_EXPORT ssize_t write(int fd, const void* data, size_t bytes) {
  return traced_send(fd, 0, [=] { return real_write.get()(fd, data, bytes); });
}

ORRERY_EXPORT ssize_t writev(int fd, const iovec* parts, int count) {
  return traced_send(fd, 0, [=] { return real_writev.get()(fd, parts, count); });
}

ORRERY_EXPORT ssize_t recv(int fd, void* data, size_t bytes, int flags) {
  return traced_receive(fd, flags, [=] { return real_recv.get()(fd, data, bytes, flags); });
}

ORRERY_EXPORT ssize_t recvfrom(int fd, void* data, size_t bytes, int flags, sockaddr* address,
                               socklen_t* address_bytes) {
  return traced_receive(fd, flags, [=] { return real_recvfrom.get()(fd, data, bytes, flags, address, address_bytes); });
}

ORRERY_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return traced_receive(fd, flags, [=] { return real_recvmsg.get()(fd, message, flags); });
}

ORRERY_EXPORT ssize_t read(int fd, void* data, size_t bytes) {
  return traced_receive(fd, 0, [=] { return real_read.get()(fd, data, bytes); });
}

ORRERY_EXPORT ssize_t readv(int fd, const iovec* parts, int count) {
  return traced_receive(fd, 0, [=] { return real_readv.get()(fd, parts, count); });
}

// What read and its kin become in programs built with _FORTIFY_SOURCE.
ORRERY_EXPORT ssize_t __read_chk(int fd, void* data, size_t bytes, size_t room) {
  return traced_receive(fd, 0, [=] { return real_read_chk.get()(fd, data, bytes, room); });
}

ORRERY_EXPORT ssize_t __recv_chk(int fd, void* data, size_t bytes, size_t room, int flags) {
  return traced_receive(fd, flags, [=] { return real_recv_chk.get()(fd, data, bytes, room, flags); });
}

ORRERY_EXPORT ssize_t __recvfrom_chk(int fd, void* data, size_t bytes, size_t room, int flags, sockaddr* address,
                                     socklen_t* address_bytes) {
  return traced_receive(fd, flags,
                        [=] { return real_recvfrom_chk.get()(fd, data, bytes, room, flags, address, address_bytes); });
}

ORRERY_EXPORT int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  return send_messages(fd, messages, count, flags);
}

ORRERY_EXPORT int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* patience) {
  const int received = real_recvmmsg.get()(fd, messages, count, flags, patience);
  if (received > 0 && flow_of(fd) != nullptr && !(flags & (MSG_PEEK | MSG_ERRQUEUE)))
    count_received(fd, bytes_of(messages, received));
  return received;
}

ORRERY_EXPORT ssize_t sendfile(int to, int from, off_t* offset, size_t bytes) noexcept {
  return traced_send(to, 0, [=] { return real_sendfile.get()(to, from, offset, bytes); });
}

ORRERY_EXPORT ssize_t sendfile64(int to, int from, off64_t* offset, size_t bytes) noexcept {
  return traced_send(to, 0, [=] { return real_sendfile64.get()(to, from, offset, bytes); });
}

ORRERY_EXPORT ssize_t splice(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t bytes, unsigned flags) {
  const ssize_t moved =
      traced_send(to, 0, [=] { return real_splice.get()(from, from_offset, to, to_offset, bytes, flags); });
  count_received(from, moved);
  return moved;
}

ORRERY_EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);  // as wide as anything a command takes
  va_end(arguments);
  return duplicate_by(command, fd, real_fcntl.get()(fd, command, argument));
}

// fcntl in programs built against glibc 2.28 or newer with 64-bit file offsets.
ORRERY_EXPORT int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  auto* real = real_fcntl64.get() != nullptr ? real_fcntl64.get() : real_fcntl.get();
  return duplicate_by(command, fd, real(fd, command, argument));
}

ORRERY_EXPORT void closefrom(int first) noexcept {
  const int saved = errno;
  if (arm() != kOff && is_own_process()) forget_range(first < 0 ? 0 : static_cast<unsigned>(first), ~0u);
  errno = saved;
  if (auto* real = real_closefrom.get()) return real(first);
  syscall(SYS_close_range, first < 0 ? 0 : first, ~0u, 0);
}

// A program that closes every number it can think of does not mean our connection, which it never opened.
ORRERY_EXPORT int close(int fd) {
  if (is_agent_connection(fd) && arm() != kOff) {
    errno = EBADF;
    return -1;
  }
  if (is_followed(fd)) forget_if_ours(fd);
  return real_close.get()(fd);
}

ORRERY_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  constexpr int kOnlyMark = 4;  // CLOSE_RANGE_CLOEXEC
  auto* function = real_close_range.get();
  const int saved = errno;
  if (arm() != kOff && !(flags & kOnlyMark) && is_own_process()) forget_range(first, last);
  errno = saved;
  if (function != nullptr) return function(first, last, flags);
  return static_cast<int>(syscall(SYS_close_range, first, last, flags));
}

ORRERY_EXPORT int dup(int fd) noexcept {
  return duplicate(fd, real_dup.get()(fd));
}

ORRERY_EXPORT int dup2(int from, int to) noexcept {
  return duplicate_onto(from, to, [=] { return real_dup2.get()(from, to); });
}

ORRERY_EXPORT int dup3(int from, int to, int flags) noexcept {
  return duplicate_onto(from, to, [=] { return real_dup3.get()(from, to, flags); });
}

ORRERY_EXPORT int shutdown(int fd, int how) noexcept {
  const int result = real_shutdown.get()(fd, how);
  if (result == 0 && how == SHUT_RDWR && is_followed(fd)) forget_if_ours(fd);
  return result;
}

ORRERY_EXPORT int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  const int result = real_epoll_ctl.get()(epoll, operation, fd, event);
  if (result == 0 && event != nullptr && operation != EPOLL_CTL_DEL && (event->events & EPOLLET))
    mark_edge_triggered(fd);
  return result;
}
