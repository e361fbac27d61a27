// Schemes that begin where the switches' hash puts a connection.
#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "tools/sim/schemes/schemes.h"

namespace orrery::sim {
namespace {

constexpr uint16_t kRoceSourcePorts = 49'152;
constexpr uint16_t kRocePort = 4791;
constexpr uint8_t kUdp = 17;

PathPolicy policy_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::kFlowlet:
      return PathPolicy::kFlowlet;
    case Scheme::kSpray:
      return PathPolicy::kSpray;
    case Scheme::kRecycle:
      return PathPolicy::kRecycle;
    case Scheme::kRehash:
      return PathPolicy::kRehash;
    default:
      return PathPolicy::kStatic;
  }
}

class FiveTuples {
 public:
  explicit FiveTuples(const SchemeOptions& options) : random_(options.seed) {
    for (const FiveTuple& tuple : options.five_tuples) given_[{tuple.src, tuple.dst}].push_back(tuple);
  }

  FiveTuple next(const fabric::Nic& src, const fabric::Nic& dst) {
    const auto given = given_.find({src.address, dst.address});
    if (given == given_.end() || given->second.empty()) {
      const auto port = static_cast<uint16_t>(kRoceSourcePorts + random_() % (65'536 - kRoceSourcePorts));
      return {src.address, dst.address, port, kRocePort, kUdp};
    }
    const FiveTuple tuple = given->second.front();
    given->second.pop_front();
    return tuple;
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
  std::map<std::pair<IpAddress, IpAddress>, std::deque<FiveTuple>> given_;
};

}  // namespace

Result<Routed> route_hashed(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme,
                            const SchemeOptions& options) {
  FiveTuples tuples(options);
  Routed routed;
  const uint32_t connections = scheme == Scheme::kEcmpMulti ? std::max(1u, options.connections) : 1;
  for (uint32_t i = 0; i < traffic.flows.size(); ++i) {
    const fabric::Nic& src = graph.nics()[traffic.flows[i].src];
    const fabric::Nic& dst = graph.nics()[traffic.flows[i].dst];
    FlowRoute route;
    for (uint32_t k = 0; k < connections; ++k) {
      auto first = graph.ecmp_path(tuples.next(src, dst));
      if (!first) return no_path(traffic, graph, i);
      QpRoute qp{{*first}, policy_of(scheme)};
      // The others are where a hash would lead after a failure, or what the scheme may choose from.
      for (fabric::Path& path : graph.paths(src, dst, options.path_limit))
        if (path != *first) qp.paths.push_back(std::move(path));
      if (qp.policy == PathPolicy::kStatic && qp.paths.size() > 2) {
        std::swap(qp.paths[1], qp.paths[1 + tuples.random()() % (qp.paths.size() - 1)]);
        qp.paths = {std::move(qp.paths[0]), std::move(qp.paths[1])};  // gives back the room for all of them
      }
      route.qps.push_back(std::move(qp));
    }
    routed.flows.push_back(std::move(route));
  }
  return routed;
}

}  // namespace orrery::sim
