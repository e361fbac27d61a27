#include "agent/preload/plan_use.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/preload/comm_table.h"
#include "agent/preload/port_choice.h"
#include "common/abi/ecmp_hash_abi.h"

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif
#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

namespace orrery::preload {
namespace {

constexpr int kMaxAttempts = 64;
constexpr uint8_t kKeepDscp = 0xff;

bool find_entry(const Flow* flow, const Endpoint* local, const Endpoint& remote, uint16_t ordinal, uint64_t now,
                shm::PlanAnswer* answer) {
  shm::PlanQuery query{};
  if (local != nullptr) memcpy(query.local_address, local->address, 16);
  memcpy(query.remote_address, remote.address, 16);
  query.ordinal = flow != nullptr ? flow->ordinal : ordinal;
  query.protocol = IPPROTO_TCP;
  return attachment.plan.find(query, now, answer);
}

// Differs between processes and moves on with every connection, so that neighbours do not fight for the same ports.
uint32_t next_start() {
  static uint32_t calls = 0;
  static uint32_t base = 0;
  if (__atomic_load_n(&base, __ATOMIC_RELAXED) == 0) {
    const uint64_t salt = now_ns() ^ (static_cast<uint64_t>(getpid()) << 32);
    __atomic_store_n(&base, orrery_hash_round(static_cast<uint32_t>(salt), static_cast<uint32_t>(salt >> 32)) | 1u,
                     __ATOMIC_RELAXED);
  }
  return __atomic_load_n(&base, __ATOMIC_RELAXED) + __atomic_fetch_add(&calls, 1u, __ATOMIC_RELAXED) * 7919u;
}

// The address the kernel would send from. An unconnected UDP socket answers that without a packet. Raw, because a
// cancelled thread would end in connect() and leave the descriptor open.
bool route_source(const sockaddr* address, socklen_t bytes, Endpoint* local) {
  const long probe = syscall(SYS_socket, address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  sockaddr_storage name;
  socklen_t name_bytes = sizeof(name);
  const bool known = syscall(SYS_connect, probe, address, bytes) == 0 &&
                     getsockname(static_cast<int>(probe), reinterpret_cast<sockaddr*>(&name), &name_bytes) == 0 &&
                     to_endpoint(reinterpret_cast<sockaddr*>(&name), name_bytes, local);
  syscall(SYS_close, probe);
  return known;
}

bool is_any(const uint8_t* address) {
  static const uint8_t kZero[16] = {};
  return memcmp(address, kZero, 16) == 0 || memcmp(address + 12, kZero, 4) == 0;
}

int option(int fd, int level, int name) {
  int value = 0;
  socklen_t bytes = sizeof(value);
  return getsockopt(fd, level, name, &value, &bytes) == 0 ? value : -1;
}

void apply_dscp(int fd, int family, uint8_t dscp) {
  if (dscp == kKeepDscp) return;
  const int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
  const int name = family == AF_INET ? IP_TOS : IPV6_TCLASS;
  if (option(fd, level, name) > 0) return;  // the application has its own wish
  const int value = dscp << 2;
  setsockopt(fd, level, name, &value, sizeof(value));
}

bool apply_pace(int fd, uint64_t pace_bps) {
  if (pace_bps == 0) return false;
  uint64_t own = 0;
  socklen_t own_bytes = sizeof(own);
  const bool known = getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &own, &own_bytes) == 0;
  const uint64_t unlimited = own_bytes == sizeof(own) ? UINT64_MAX : UINT32_MAX;
  if (!known || own != unlimited) return false;  // the application has its own wish
  const uint64_t bytes_per_s = pace_bps / 8;
  return setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof(bytes_per_s)) == 0;
}

// Since Linux 6.3 a socket can be told which port to take without binding it: several connections may share the port,
// and the wish can be taken back. An application that uses this option itself is left alone.
bool set_port_range(int fd, uint16_t port) {
  const uint32_t range = static_cast<uint32_t>(port) << 16 | port;
  return setsockopt(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &range, sizeof(range)) == 0;
}

int connect_in_range(int fd, const sockaddr* address, socklen_t bytes, PortChoice& choice, uint16_t first,
                     int (*connect)(int, const sockaddr*, socklen_t), bool* chosen) {
  int attempts = 0;
  for (uint16_t port = first; port != 0 && attempts < kMaxAttempts; port = choice.next(), ++attempts) {
    if (!set_port_range(fd, port)) break;
    const int result = connect(fd, address, bytes);
    const int error = errno;
    if (result == 0 || error != EADDRNOTAVAIL) {
      *chosen = true;
      set_port_range(fd, 0);
      errno = error;
      return result;
    }
  }
  set_port_range(fd, 0);
  return connect(fd, address, bytes);
}

bool bind_any(int fd, int family, const sockaddr_storage& name, uint16_t port) {
  sockaddr_storage bound = name;  // keeps an address the application has bound without a port
  socklen_t bytes = sizeof(sockaddr_in);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&bound)->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port = htons(port);
    bytes = sizeof(sockaddr_in6);
  }
  return bind(fd, reinterpret_cast<sockaddr*>(&bound), bytes) == 0;
}

// While it lives, addresses are not shared: a port that is free only for those who share would make connect() fail with
// an error that the program would not have seen.
class Unshared {
 public:
  explicit Unshared(int fd) : fd_(fd), reuse_(take(SO_REUSEADDR)), reuse_port_(take(SO_REUSEPORT)) {}
  ~Unshared() {
    give_back(SO_REUSEADDR, reuse_);
    give_back(SO_REUSEPORT, reuse_port_);
  }

 private:
  int take(int name) const {
    const int value = option(fd_, SOL_SOCKET, name);
    if (value > 0) set(name, 0);
    return value;
  }
  void give_back(int name, int value) const {
    if (value > 0) set(name, value);
  }
  void set(int name, int value) const { setsockopt(fd_, SOL_SOCKET, name, &value, sizeof(value)); }

  const int fd_;
  const int reuse_, reuse_port_;
};

bool bind_in_range(int fd, int family, const sockaddr_storage& name, PortChoice& choice, uint16_t first) {
  const Unshared unshared(fd);
  int attempts = 0;
  for (uint16_t port = first; port != 0 && attempts < kMaxAttempts; port = choice.next(), ++attempts) {
    if (bind_any(fd, family, name, port)) return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

// The socket's own name before connect: false unless it is still without a port.
bool is_unbound(int fd, sockaddr_storage* name, Endpoint* local) {
  socklen_t bytes = sizeof(*name);
  *name = {};
  return getsockname(fd, reinterpret_cast<sockaddr*>(name), &bytes) == 0 &&
         to_endpoint(reinterpret_cast<sockaddr*>(name), bytes, local) && local->port == 0;
}

void adopt(Flow& flow, const shm::PlanAnswer* answer) {
  flow.plan_flow_id = answer != nullptr ? answer->entry.flow_id : 0;
  flow.plan_comm_id = answer != nullptr ? answer->entry.comm_id : 0;
  flow.release_offset_ns = answer != nullptr && !answer->release_suspended ? answer->entry.release_offset_ns : 0;
  if (orrery_flow_counters* counters = counters_of(flow))
    shm::store_relaxed(&counters->plan_flow_id, flow.plan_flow_id);
}

}  // namespace

int connect_planned(int fd, const sockaddr* address, socklen_t bytes, const Endpoint& remote, uint16_t ordinal,
                    int (*connect)(int, const sockaddr*, socklen_t), Planned* planned) {
  const int saved = errno;
  shm::PlanAnswer answer;
  sockaddr_storage name;
  Endpoint local;
  const auto plainly = [&] {
    errno = saved;
    return connect(fd, address, bytes);
  };
  if (!is_unbound(fd, &name, &local)) return plainly();
  const bool address_bound = !is_any(local.address);
  if (!find_entry(nullptr, address_bound ? &local : nullptr, remote, ordinal, now_ns(), &answer)) return plainly();
  const orrery_plan_entry& entry = answer.entry;
  apply_dscp(fd, address->sa_family, entry.dscp);
  planned->paced = apply_pace(fd, entry.pace_bps);
  if (entry.src_port_first == 0) return plainly();
  if (!address_bound && !route_source(address, bytes, &local)) return plainly();
  PortChoice choice(entry, local, remote, next_start());
  const uint16_t first = choice.next();
  if (first == 0) return plainly();
  bool chosen = false;
  int result;
  if (option(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE) == 0 && set_port_range(fd, first)) {
    errno = saved;
    result = connect_in_range(fd, address, bytes, choice, first, connect, &chosen);
  } else {
    chosen = bind_in_range(fd, address->sa_family, name, choice, first);
    result = plainly();
  }
  if (chosen) planned->entry_index = answer.index;
  return result;
}

void lift_pace(Flow& flow, int fd) {
  const int saved = errno;
  const uint64_t unlimited = UINT64_MAX;
  if (still_means(fd, flow)) setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &unlimited, sizeof(unlimited));
  flow.paced = false;
  errno = saved;
}

static uint32_t any_paced = 0;

void note_paced() {
  __atomic_store_n(&any_paced, 1u, __ATOMIC_RELAXED);
}

void lift_all_paces_in_child() {
  if (any_paced == 0) return;
  for (int fd = 0; fd < kMaxDescriptors; ++fd)
    if (Flow* flow = flow_of(fd); flow != nullptr && flow->paced) lift_pace(*flow, fd);
  any_paced = 0;
}

void refresh_plan(Flow& flow, uint64_t now) {
  const uint32_t sequence = attachment.plan.sequence();
  if (flow.plan_generation == generation() && flow.plan_sequence == sequence) return;
  shm::PlanAnswer answer;
  const bool found = find_entry(&flow, &flow.local, flow.remote, 0, now, &answer);
  adopt(flow, found ? &answer : nullptr);
  flow.plan_generation = generation();
  flow.plan_sequence = found ? answer.sequence : sequence;
}

// EAGAIN is an answer only for those who asked not to wait, and only on the connection itself: an event descriptor that
// has got its number would lose a wake-up.
static bool may_be_told_to_wait(const Flow& flow, int fd, int flags) {
  const int saved = errno;
  const int status = (flags & MSG_DONTWAIT) ? O_NONBLOCK : fcntl(fd, F_GETFL);
  const bool waits = status < 0 || !(status & O_NONBLOCK);
  const bool may = !waits && still_means(fd, flow);
  errno = saved;
  return may;
}

uint64_t release_waits_for(uint64_t comm_id, const Comm** comm, uint64_t offset_ns, const ReleaseHold& hold,
                           uint64_t now) {
  if (offset_ns == 0 || !attachment.plan.lease_valid(now)) return 0;
  const uint64_t start = last_collective_start(comm_id, comm);
  if (start == 0 || now >= start + offset_ns) return 0;
  return hold.since_ns == 0 && hold.start_ns == start ? 0 : start;  // a later burst of the same collective goes
}

uint64_t hold_for(ReleaseHold& hold, uint64_t start_ns, uint64_t offset_ns, uint64_t now) {
  if (hold.start_ns != start_ns) {  // first attempt of this collective
    hold.start_ns = start_ns;
    hold.since_ns = now;
  }
  const uint64_t release = start_ns + offset_ns, cap = hold.since_ns + attachment.hold_cap_ns;
  return release < cap ? release : cap;
}

bool must_hold(Flow& flow, int fd, int flags, uint64_t now) {
  refresh_plan(flow, now);
  const uint64_t start = release_waits_for(flow.plan_comm_id, &flow.plan_comm, flow.release_offset_ns, flow.hold, now);
  if (start == 0) return false;
  if ((descriptor(fd) & kEdgeTriggered) || __atomic_load_n(&flow.edge_triggered, __ATOMIC_RELAXED)) return false;
  if (!may_be_told_to_wait(flow, fd, flags)) return false;
  return now < hold_for(flow.hold, start, flow.release_offset_ns, now);
}

}  // namespace orrery::preload
