#include "agent/preload/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/preload/comm_table.h"
#include "agent/preload/flow_table.h"
#include "agent/preload/layers.h"
#include "agent/preload/process.h"
#include "agent/preload/qp_table.h"
#include "common/abi/attach_abi.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 2
#endif

namespace orrery::preload {

uint64_t next_tick_ns = 0;
int connection_number = -1;

namespace {

constexpr int kHighDescriptor =
    960;  // out of the way of shells and of programs that count; below the usual limit of 1024
constexpr size_t kLeastRoom = 32u << 20;

// An address range kept for good, see map_over().
struct Room {
  char* base;
  size_t bytes;
  size_t used;
};

struct Connection {
  uint32_t busy;           // a try-lock: whoever does not get it goes on without
  uint64_t device, inode;  // of our socket: the application may have closed the number behind our back
  bool awaiting_reply;
  uint64_t reply_deadline_ns;
  uint64_t next_try_ns;
  Room segment_room;
  Room plan_room;
  bool said_refused;
  uint32_t attachments;  // so far, those of the parent before a fork included: a generation never returns
  sockaddr_un address;
};
constinit Connection connection{};

class TryLock {
 public:
  TryLock() : held_(__atomic_exchange_n(&connection.busy, 1u, __ATOMIC_ACQUIRE) == 0) {}
  ~TryLock() {
    if (held_) __atomic_store_n(&connection.busy, 0u, __ATOMIC_RELEASE);
  }
  bool held() const { return held_; }

 private:
  const bool held_;
};

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }

 private:
  const int saved_;
};

// Raw, so that neither our own wrappers nor another interposer's see them.
void close_raw(int fd) {
  if (fd >= 0) syscall(SYS_close, fd);
}

bool identity_of(int fd, uint64_t* device, uint64_t* inode, uint64_t* bytes = nullptr) {
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) != 0) return false;
  *device = status.st_dev;
  *inode = status.st_ino;
  if (bytes != nullptr) *bytes = static_cast<uint64_t>(status.st_size);
  return true;
}

bool connection_is_ours() {
  uint64_t device, inode;
  return connection_number >= 0 && identity_of(connection_number, &device, &inode) && device == connection.device &&
         inode == connection.inode;
}

void hang_up() {
  if (connection_is_ours()) close_raw(connection_number);
  __atomic_store_n(&connection_number, -1, __ATOMIC_RELAXED);
  connection.awaiting_reply = false;
}

void detach(uint64_t now, const char* why) {
  __atomic_store_n(&fork_wiped.arm, uint32_t{kSeeking}, __ATOMIC_RELEASE);
  hang_up();
  connection.next_try_ns = now + kRetryNs;
  say(kLogInfo, "detached from the agent, going on without: ", why);
}

int to_high_descriptor(int fd) {
  rlimit limit;
  const bool low = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kHighDescriptor + 64;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, low ? static_cast<int>(limit.rlim_cur / 2) : kHighDescriptor);
  close_raw(fd);
  return high;
}

bool send_request(int fd) {
  orrery_attach_request request{};
  request.magic = ORRERY_ATTACH_MAGIC;
  request.abi_version = ORRERY_ABI_VERSION;
  request.abi_oldest = ORRERY_ABI_OLDEST;
  request.pid = static_cast<orrery_u32>(getpid());
  request.layers = active_layers();
  prctl(PR_GET_NAME, request.program);
  return syscall(SYS_sendto, fd, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0) ==
         static_cast<long>(sizeof(request));
}

void call_agent(uint64_t now) {
  connection.next_try_ns = now + kRetryNs;
  // A socket takes the lowest number for a moment, which the program might see: not where there is no agent.
  if (syscall(SYS_faccessat, AT_FDCWD, connection.address.sun_path, F_OK) != 0) return;
  int fd = static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return;
  if (syscall(SYS_connect, fd, &connection.address, sizeof(connection.address)) != 0 || !send_request(fd)) {
    close_raw(fd);
    return;
  }
  fd = to_high_descriptor(fd);
  if (fd < 0) return;  // a low number would shift those of the application
  if (!identity_of(fd, &connection.device, &connection.inode)) return close_raw(fd);
  __atomic_store_n(&connection_number, fd, __ATOMIC_RELAXED);
  connection.awaiting_reply = true;
  connection.reply_deadline_ns = now + kRetryNs;
}

struct Reply {
  orrery_attach_reply body;
  int fds[2] = {-1, -1};
  long bytes = -1;

  ~Reply() {
    close_raw(fds[0]);
    close_raw(fds[1]);
  }
};

void receive(Reply& reply) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)];
  iovec data{&reply.body, sizeof(reply.body)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  reply.bytes = syscall(SYS_recvmsg, connection_number, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (reply.bytes < 0) return;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(reply.fds, CMSG_DATA(part), (count < 2 ? count : 2) * sizeof(int));
  }
}

// Memory that can shrink under us would kill the process at its next touch: without the seal it is not used.
bool is_safe_memory(int fd, uint64_t bytes) {
  uint64_t device, inode, actual;
  if (fd < 0 || bytes == 0 || !identity_of(fd, &device, &inode, &actual) || actual < bytes) return false;
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

// Reserves a room for `bytes` and as much again: what a thread that is late by one attachment mixes of old addresses
// and new sizes still lies within one.
bool make_room(Room& room, size_t bytes, int protection) {
  const size_t wanted = 2 * bytes > kLeastRoom ? 2 * bytes : kLeastRoom;
  void* base = mmap(nullptr, wanted, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  room = {static_cast<char*>(base), wanted, 0};
  return true;
}

// Maps `fd` at a fixed address within `room`, which stays mapped (with anonymous memory where nothing else is) for the
// life of the process: a thread that is late by one attachment touches valid memory, whenever it wakes up. A newer
// agent may need a larger room; the old one is emptied and left.
bool map_over(Room& room, int fd, size_t bytes, int protection) {
  if (room.base != nullptr && room.used != 0 &&
      mmap(room.base, room.used, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
          room.base)
    return false;
  if (2 * bytes > room.bytes && !make_room(room, bytes, protection)) return false;
  room.used = bytes;
  return mmap(room.base, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == room.base;
}

bool use(const Reply& reply) {
  const orrery_attach_reply& body = reply.body;
  if (!is_safe_memory(reply.fds[0], body.segment_bytes) || !is_safe_memory(reply.fds[1], body.plan_bytes)) return false;
  if (!map_over(connection.segment_room, reply.fds[0], body.segment_bytes, PROT_READ | PROT_WRITE) ||
      !map_over(connection.plan_room, reply.fds[1], body.plan_bytes, PROT_READ))
    return false;
  if (!attachment.segment.open(connection.segment_room.base, body.segment_bytes) ||
      !attachment.plan.open(connection.plan_room.base, body.plan_bytes))
    return false;
  attachment.abi_version = body.abi_version;
  attachment.flowlet_gap_ns = body.flowlet_gap_ns;
  attachment.hold_cap_ns = body.hold_cap_ns;
  return true;
}

void refuse(uint64_t now, const char* why) {
  hang_up();
  connection.next_try_ns = now + kRefusedRetryNs;
  if (!connection.said_refused) say(kLogError, "not attached, going on without the agent: ", why);
  connection.said_refused = true;
}

const char* refusal_of(const Reply& reply) {
  const orrery_attach_reply& body = reply.body;
  if (reply.bytes != sizeof(body) || body.magic != ORRERY_ATTACH_MAGIC)
    return "its answer is not understood; is ORRERY_AGENT_SOCKET the agent's socket?";
  switch (body.status) {
    case ORRERY_ATTACH_OK:
      return body.abi_version >= ORRERY_ABI_OLDEST && body.abi_version <= ORRERY_ABI_VERSION
                 ? nullptr
                 : "it speaks another version; upgrade the older side";
    case ORRERY_ATTACH_VERSION:
      return "it speaks another version; upgrade the older side";
    case ORRERY_ATTACH_FULL:
      return "it serves as many processes as it may (see its `attach` settings)";
    default:
      return "it refuses this process";
  }
}

void take_reply(uint64_t now) {
  Reply reply;
  receive(reply);
  if (reply.bytes < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (now >= connection.reply_deadline_ns) hang_up();
    return;
  }
  if (reply.bytes <= 0) return hang_up();
  if (const char* why = refusal_of(reply)) return refuse(now, why);
  if (!use(reply))
    return refuse(now, "its shared memory is not as agreed, or there is no address space for it (see ulimit -v)");
  connection.awaiting_reply = false;
  const uint32_t next = ++connection.attachments;
  __atomic_store_n(&fork_wiped.generation, next, __ATOMIC_RELEASE);
  __atomic_store_n(&fork_wiped.arm, uint32_t{kAttached}, __ATOMIC_RELEASE);
  fence_announcement();
  announce_all_flows();
  announce_all_qps();
  if (announce_all_comms()) ring_doorbell();
  say(kLogInfo, "attached to the agent (NCCL, sockets) at ", connection.address.sun_path);
}

void check_health(uint64_t now) {
  if (!connection_is_ours()) return detach(now, "the program closed our connection");
  char byte;
  const long got = syscall(SYS_recvfrom, connection_number, &byte, 1, MSG_DONTWAIT | MSG_PEEK, nullptr, nullptr);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return detach(now, "it closed the connection");
  const uint64_t alive = attachment.segment.agent_alive_ns();
  if (alive < now && now - alive > kAgentSilenceNs) detach(now, "it is silent");
}

void step(uint64_t now) {
  if (attached()) return check_health(now);
  if (connection.awaiting_reply) {
    if (!connection_is_ours()) return hang_up();
    return take_reply(now);
  }
  if (now >= connection.next_try_ns) call_agent(now);
}

}  // namespace

void choose_agent_socket(const char* path) {
  if (path == nullptr || *path == '\0') path = ORRERY_AGENT_SOCKET_DEFAULT;
  connection.address.sun_family = AF_UNIX;
  if (strlen(path) < sizeof(connection.address.sun_path))
    strcpy(connection.address.sun_path, path);
  else
    say(kLogError, "ORRERY_AGENT_SOCKET is too long for a socket's path: ", path);
}

void tick_slow(uint64_t now) {
  if (arm() == kOff) return;
  TryLock lock;
  if (!lock.held() || !is_own_process()) return;
  KeepErrno keep;
  // While a reply is under way every caller looks for it; else the kernel is not asked more often than needed.
  step(now);
  __atomic_store_n(&next_tick_ns, connection.awaiting_reply ? 0 : now + kTickNs, __ATOMIC_RELAXED);
}

void tick_now_slow() {
  tick(now_ns());
}

void attach_for_communicator() {
  TryLock lock;
  if (!lock.held() || !is_own_process()) return;
  KeepErrno keep;
  step(now_ns());
  if (!attached() && !connection.awaiting_reply) step(now_ns());  // the agent had gone: is there a new one?
  if (!connection.awaiting_reply) return;
  pollfd reply{connection_number, POLLIN, 0};
  timespec patience{0, kReplyWaitMs * 1'000'000};
  // Raw: poll() is where a cancelled thread would end, with our lock.
  if (syscall(SYS_ppoll, &reply, 1, &patience, nullptr, 0) == 1) take_reply(now_ns());
}

void ring_doorbell() {
  KeepErrno keep;
  const char byte = 0;
  if (connection_is_ours()) syscall(SYS_sendto, connection_number, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}

bool is_agent_connection_slow(int fd) {
  KeepErrno keep;
  uint64_t device, inode;
  return identity_of(fd, &device, &inode) && device == connection.device && inode == connection.inode;
}

void move_connection_away(int fd) {
  TryLock lock;
  if (!lock.held() || !is_own_process() || fd != connection_number || !connection_is_ours()) return;
  KeepErrno keep;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
  if (moved >= 0) __atomic_store_n(&connection_number, moved, __ATOMIC_RELAXED);
}

void forget_connection_of_parent() {
  drop_connection_in_child();
  connection.busy = 0;  // another thread of the parent may have held it
  connection.awaiting_reply = false;
  connection.said_refused = false;
  connection.next_try_ns = 0;
  __atomic_store_n(&next_tick_ns, uint64_t{0}, __ATOMIC_RELAXED);
}

void drop_connection_in_child() {
  if (connection_is_ours()) close_raw(connection_number);
  __atomic_store_n(&connection_number, -1, __ATOMIC_RELAXED);
}

}  // namespace orrery::preload
