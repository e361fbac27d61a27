// The host's BPF programs on a veth pair between two network namespaces of this process's own, with real TCP and UDP
// packets.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "agent/bpf/traffic_probe.h"
#include "common/base/clock.h"
#include "common/base/unique_fd.h"

using namespace orrery;
using bpf::TrafficProbe;

namespace {

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// h0 (10.251.0.1) here, its peer h1 (10.251.0.2) in the namespace of a sleeping child; all of it ends with the process.
class Wire {
 public:
  static std::unique_ptr<Wire> make() {
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) return nullptr;
    auto wire = std::unique_ptr<Wire>(new Wire);
    const std::string pid = std::to_string(wire->peer_);
    const bool up = run("ip link set lo up && ip link add h0 type veth peer name h1 netns " + pid) &&
                    run("ip addr add 10.251.0.1/24 dev h0 && ip link set h0 up") &&
                    wire->run_at_peer("ip addr add 10.251.0.2/24 dev h1 && ip link set h1 up && ip link set lo up");
    return up ? std::move(wire) : nullptr;
  }
  bool run_at_peer(const std::string& command) const {
    return run("nsenter -t " + std::to_string(peer_) + " -n sh -c '" + command + "'");
  }
  ~Wire() {
    kill(peer_, SIGKILL);
    waitpid(peer_, nullptr, 0);
  }
  // A UDP socket in the peer's namespace, bound to `port`.
  UniqueFd peer_socket(uint16_t port, int type) const {
    const UniqueFd own(open("/proc/self/ns/net", 0)),
        other(open(("/proc/" + std::to_string(peer_) + "/ns/net").c_str(), 0));
    REQUIRE(setns(other.get(), CLONE_NEWNET) == 0);
    UniqueFd made(socket(AF_INET, type, 0));
    REQUIRE(setns(own.get(), CLONE_NEWNET) == 0);
    sockaddr_in address = at("10.251.0.2", port);
    REQUIRE(bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return made;
  }
  static sockaddr_in at(const char* address, uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    inet_pton(AF_INET, address, &made.sin_addr);
    return made;
  }

 private:
  static int open(const char* path, int flags) { return ::open(path, flags | O_CLOEXEC); }
  Wire() {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    peer_ = fork();
    if (peer_ == 0) {
      unshare(CLONE_NEWNET);
      (void)!write(ready[1], "x", 1);
      for (;;) pause();
    }
    char byte;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
  }
  pid_t peer_ = -1;
};

FiveTuple tuple(uint16_t src_port, uint16_t dst_port, uint8_t protocol) {
  return {IpAddress::parse("10.251.0.1").value(), IpAddress::parse("10.251.0.2").value(), src_port, dst_port, protocol};
}

UniqueFd own_udp(uint16_t port) {
  UniqueFd made(socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in own = Wire::at("10.251.0.1", port);
  REQUIRE(bind(made.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) == 0);
  return made;
}

void send_udp(int from, const char* address, uint16_t port, size_t bytes) {
  const std::string payload(bytes, 'x');
  sockaddr_in to = Wire::at(address, port);
  REQUIRE(sendto(from, payload.data(), payload.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to) > 0);
}

// Receives one datagram with the TOS it came with.
int receive_tos(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
  timeval patience{5, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char payload[2000], control[100];
  iovec part{payload, sizeof payload};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, 0) < 0) return -1;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head))
    if (head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_TOS)
      return *reinterpret_cast<uint8_t*>(CMSG_DATA(head));
  return -1;
}

// Filters of the agent's handle on the interface, egress and ingress.
int filters(const char* interface) {
  int count = 0;
  for (const auto point : {BPF_TC_EGRESS, BPF_TC_INGRESS}) {
    bpf_tc_hook hook{};
    hook.sz = sizeof hook;
    hook.ifindex = static_cast<int>(if_nametoindex(interface));
    hook.attach_point = point;
    bpf_tc_opts options{};
    options.sz = sizeof options;
    options.handle = 0x4f52;
    options.priority = 20000;
    count += bpf_tc_query(&hook, &options) == 0;
  }
  return count;
}

orrery_plan_entry marked_entry(uint8_t dscp) {
  orrery_plan_entry entry{};
  std::memcpy(entry.local_address, tuple(0, 0, 0).src.bytes().data(), 16);
  std::memcpy(entry.remote_address, tuple(0, 0, 0).dst.bytes().data(), 16);
  entry.protocol = IPPROTO_UDP;
  entry.dscp = dscp;
  return entry;
}

}  // namespace

#define NEED_WIRE(wire)                                                  \
  const auto wire = Wire::make();                                        \
  if (!wire) {                                                           \
    WARN("needs root, veth and network namespaces: nothing was tested"); \
    return;                                                              \
  }

TEST_CASE("every feature is attached here, and bytes and packets are counted in both directions", "[bpf]") {
  NEED_WIRE(wire);
  const TrafficProbe probe = TrafficProbe::create("h0").value();
  CHECK(probe.features() == std::vector<std::string>{"bpf-flows", "bpf-dscp", "bpf-retransmits"});
  const UniqueFd own = own_udp(4000), peer = wire->peer_socket(5000, SOCK_DGRAM);
  for (int i = 0; i < 3; ++i) send_udp(own.get(), "10.251.0.2", 5000, 1000);
  send_udp(peer.get(), "10.251.0.1", 4000, 500);
  CHECK(receive_tos(own.get()) == 0);
  const auto flow = probe.flow(tuple(4000, 5000, IPPROTO_UDP));
  REQUIRE(flow);
  CHECK(flow->tx_packets == 3);
  CHECK(flow->tx_bytes == 3 * (1000 + 14 + 20 + 8));
  CHECK(flow->rx_packets == 1);
  CHECK(flow->rx_bytes == 500 + 14 + 20 + 8);
  CHECK_FALSE(probe.flow(tuple(4001, 5000, IPPROTO_UDP)));
}

TEST_CASE("planned flows get their DSCP while the lease lasts, with ECN bits kept and others left alone", "[bpf]") {
  NEED_WIRE(wire);
  TrafficProbe probe = TrafficProbe::create("h0").value();
  const UniqueFd own = own_udp(4000), peer = wire->peer_socket(5000, SOCK_DGRAM);
  const int ecn = 2;
  REQUIRE(setsockopt(own.get(), IPPROTO_IP, IP_TOS, &ecn, sizeof ecn) == 0);
  const auto tos_of_next = [&] {
    send_udp(own.get(), "10.251.0.2", 5000, 100);
    return receive_tos(peer.get());
  };
  CHECK(tos_of_next() == 2);
  const std::vector<orrery_plan_entry> plan = {marked_entry(46)};
  probe.set_marks(plan, monotonic_now_ns() + 60'000'000'000);
  CHECK(tos_of_next() == (46 << 2 | 2));  // a wrong checksum would not have been delivered
  probe.set_marks(plan, monotonic_now_ns() - 1);
  CHECK(tos_of_next() == 2);
  probe.set_marks(std::vector<orrery_plan_entry>{marked_entry(0xff)}, monotonic_now_ns() + 60'000'000'000);
  CHECK(tos_of_next() == 2);
}

TEST_CASE("what TCP sends again is counted for its flow", "[bpf]") {
  NEED_WIRE(wire);
  const TrafficProbe probe = TrafficProbe::create("h0").value();
  const UniqueFd listener = wire->peer_socket(5000, SOCK_STREAM);
  REQUIRE(listen(listener.get(), 1) == 0);
  UniqueFd own(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in from = Wire::at("10.251.0.1", 4000), to = Wire::at("10.251.0.2", 5000);
  REQUIRE(bind(own.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) == 0);
  REQUIRE(connect(own.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  REQUIRE(probe.flow(tuple(4000, 5000, IPPROTO_TCP)));
  CHECK(probe.flow(tuple(4000, 5000, IPPROTO_TCP))->retransmits == 0);
  // From now on nobody acknowledges.
  REQUIRE(wire->run_at_peer("ip addr del 10.251.0.2/24 dev h1"));
  REQUIRE(send(own.get(), "lost", 4, 0) == 4);
  uint64_t retransmits = 0;
  for (int i = 0; i < 500 && retransmits == 0; ++i) {
    usleep(10'000);
    retransmits = probe.flow(tuple(4000, 5000, IPPROTO_TCP))->retransmits;
  }
  CHECK(retransmits > 0);
}

TEST_CASE("the filters go with the probe, and those of a killed agent are replaced by the next", "[bpf]") {
  NEED_WIRE(wire);
  const pid_t killed = fork();
  if (killed == 0) {
    const auto probe = TrafficProbe::create("h0");
    _exit(probe ? 0 : 1);  // without destructors, as by SIGKILL
  }
  int status = 0;
  waitpid(killed, &status, 0);
  REQUIRE(status == 0);
  CHECK(filters("h0") == 2);
  {
    const auto probe = TrafficProbe::create("h0");
    REQUIRE(probe);
    CHECK(filters("h0") == 2);
    CHECK(run("test $(tc filter show dev h0 egress | grep -c orrery_host_egr) -eq 1"));
  }
  CHECK(filters("h0") == 0);
}

TEST_CASE("an interface that does not exist is an error that names it", "[bpf]") {
  const auto probe = TrafficProbe::create("nosuch0");
  REQUIRE_FALSE(probe);
  CHECK(probe.error().message.find("nosuch0") != std::string::npos);
}
