// orrery-switch in a fabric of namespaces: forwards, follows rules and links, survives its control process.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "tests/integration/net_fabric.h"

namespace orrery::test {
namespace {

constexpr fabric::LeafSpine kSmall{.leaves = 2, .spines = 2, .hosts = 4};

sockaddr_in endpoint(const std::string& address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

// A UDP flow between two hosts with fixed ports, so that the test knows its five-tuple.
class UdpFlow {
 public:
  UdpFlow(const NetFabric& net, const std::string& src, const std::string& dst, uint16_t src_port, uint16_t dst_port)
      : sender_(net.open_socket(src, SOCK_DGRAM)), receiver_(net.open_socket(dst, SOCK_DGRAM)) {
    tuple_ = {IpAddress::parse(net.address(src)).value(), IpAddress::parse(net.address(dst)).value(), src_port,
              dst_port, IPPROTO_UDP};
    const auto from = endpoint(net.address(src), src_port), to = endpoint(net.address(dst), dst_port);
    REQUIRE(bind(sender_.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0);
    REQUIRE(bind(receiver_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    REQUIRE(connect(sender_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  }
  const FiveTuple& tuple() const { return tuple_; }

  // How many of `count` datagrams arrive, each given half a second.
  int exchange(int count) {
    int arrived = 0;
    for (int i = 0; i < count; ++i) {
      const uint32_t number = next_++;
      if (send(sender_.get(), &number, sizeof(number), 0) != sizeof(number)) continue;
      pollfd wait{receiver_.get(), POLLIN, 0};
      uint32_t got = 0;
      while (poll(&wait, 1, 500) == 1 && recv(receiver_.get(), &got, sizeof(got), 0) == sizeof(got) && got != number) {
      }
      arrived += got == number;
    }
    return arrived;
  }

 private:
  UniqueFd sender_, receiver_;
  FiveTuple tuple_;
  uint32_t next_ = 1;
};

nlohmann::json port_of(NetFabric& net, const std::string& node, const std::string& port) {
  const auto stats = nlohmann::json::parse(net.read_stats(node));
  for (const auto& entry : stats["ports"])
    if (entry["name"] == port) return entry;
  FAIL("no port " << port);
  return {};
}

}  // namespace

TEST_CASE("every host reaches every other through the fabric, by the paths the graph predicts") {
  NetFabric net(kSmall);
  net.start_switches();
  for (const std::string src : {"h1", "h2", "h3", "h4"})
    for (const std::string dst : {"h1", "h2", "h3", "h4"}) {
      if (src == dst) continue;
      UdpFlow flow(net, src, dst, 4000, 5000);
      INFO(src << " to " << dst);
      CHECK(flow.exchange(3) == 3);
    }
  UdpFlow flow(net, "h1", "h4", 4001, 5001);
  const auto path = net.graph().ecmp_path(flow.tuple()).value();
  const auto& uplink = net.graph().link(path[1]);
  const auto before = port_of(net, "leaf1", uplink.port);
  CHECK(flow.exchange(50) == 50);
  const auto after = port_of(net, "leaf1", uplink.port);
  CHECK(after["tx_packets"].get<int>() - before["tx_packets"].get<int>() == 50);
}

}  // namespace orrery::test
