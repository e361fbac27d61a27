// Chakra execution traces, one per rank, as one traffic: computations by their recorded durations (num_ops alone takes
// no time: it names no processor), collectives matched across ranks by process group and order, sends with receives by
// sender, receiver and tag. Sizes are those of the whole array.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "tools/sim/workload/chakra_trace.h"
#include "tools/sim/workload/job_file.h"

namespace orrery::sim {
namespace {

using Kind = ChakraNode::Kind;

struct Placed {
  const ChakraNode* node = nullptr;
  uint32_t ready = kNone;  // task: all it waits for is done
  uint32_t done = kNone;   // task
};

// CollectiveCommType of the schema.
std::optional<Op> op_of_chakra(uint64_t type) {
  switch (type) {
    case 0:
    case 9:  // barrier: an all-reduce of next to nothing
      return Op::kAllReduce;
    case 1:
      return Op::kReduce;
    case 2:
      return Op::kAllGather;
    case 5:
      return Op::kBroadcast;
    case 6:
      return Op::kAllToAll;
    case 7:
    case 8:
      return Op::kReduceScatter;
    default:
      return std::nullopt;  // gather and scatter
  }
}

class ChakraReader {
 public:
  ChakraReader(const std::vector<Input>& inputs, const ReadOptions& options)
      : inputs_(inputs), options_(options), traffic_(workload_.fixed) {}

  Result<Workload> read() {
    ORRERY_TRY(prepare());
    for (uint32_t rank = 0; rank < inputs_.size(); ++rank) ORRERY_TRY(place(rank));
    ORRERY_TRY(add_collectives());
    ORRERY_TRY(match_transfers());
    add_waits();
    if (const auto circle = circle_of(traffic_); !circle.empty()) return waits_for_itself(circle);
    return std::move(workload_);
  }

 private:
  Error at(uint32_t rank, const ChakraNode& node, std::string_view what) const {
    return byte_error(inputs_[rank].name, node.offset, fmt::format("node {}: {}", node.id, what));
  }

  Status prepare() {
    const auto ranks = static_cast<uint32_t>(inputs_.size());
    if (options_.ranks != 0 && options_.ranks != ranks)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: there are traces of {} ranks, not {}", inputs_[0].name, ranks, options_.ranks)};
    if (options_.iterations > 1)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: a trace is run once; leave {} out", inputs_[0].name, options_.names.iterations)};
    ORRERY_ASSIGN(const Job job, job_of_file(inputs_[0].name, ranks, options_));
    workload_.hosts = static_cast<uint32_t>(job.hosts.size());
    traffic_.jobs = {job.name};
    uint64_t left = options_.max_tasks / 2;  // each node is two tasks
    for (const Input& input : inputs_) {
      ORRERY_ASSIGN(traces_.emplace_back(), decode_chakra(input, left));
    }
    return {};
  }

  uint32_t host(uint32_t rank) const { return rank / std::max(1u, options_.ranks_per_host); }

  // Tasks of one rank, in an order in which each node follows what it waits for.
  Status place(uint32_t rank) {
    const std::vector<ChakraNode>& nodes = traces_[rank];
    auto& index = index_.emplace_back();
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (!index.try_emplace(nodes[i].id, i).second) return at(rank, nodes[i], "stands there twice");
      ORRERY_TRY(check_peers(rank, nodes[i]));
    }
    std::vector<std::vector<uint32_t>> next(nodes.size());
    std::vector<uint32_t> pending(nodes.size());
    for (uint32_t i = 0; i < nodes.size(); ++i)
      for (const uint64_t id : nodes[i].after) {
        const auto before = index.find(id);
        if (before == index.end()) return at(rank, nodes[i], fmt::format("waits for node {}, which is not there", id));
        next[before->second].push_back(i);
        ++pending[i];
      }
    std::deque<uint32_t> ready;
    for (uint32_t i = 0; i < nodes.size(); ++i)
      if (pending[i] == 0) ready.push_back(i);
    placed_.emplace_back(nodes.size());
    size_t count = 0;
    for (; !ready.empty(); ready.pop_front(), ++count) {
      const uint32_t i = ready.front();
      place_node(rank, i);
      for (const uint32_t then : next[i])
        if (--pending[then] == 0) ready.push_back(then);
    }
    if (count == nodes.size()) return {};
    const auto stuck = [&](uint32_t i) { return pending[i] != 0; };
    // Whoever goes back from node to node that is stuck goes round in the end.
    uint32_t i = 0;
    while (!stuck(i)) ++i;
    for (size_t steps = 0; steps < nodes.size(); ++steps)
      for (const uint64_t id : nodes[i].after)
        if (stuck(index.at(id))) {
          i = index.at(id);
          break;
        }
    return at(rank, nodes[i], "waits for itself, by way of the nodes that it waits for; is the trace complete?");
  }

  // A circle through several ranks.
  Error waits_for_itself(const std::vector<uint32_t>& circle) const {
    const std::set<uint32_t> tasks(circle.begin(), circle.end());
    for (uint32_t rank = 0; rank < placed_.size(); ++rank)
      for (const Placed& placed : placed_[rank])
        if (tasks.count(placed.ready) != 0)
          return at(rank, *placed.node,
                    "waits for itself, by way of other ranks; are sends, receives and collectives in the order in "
                    "which they ran?");
    return Error{ErrorCode::kInvalidArgument, inputs_[0].name + ": operations that wait for each other"};
  }

  Status check_peers(uint32_t rank, const ChakraNode& node) const {
    const bool sends = node.kind == Kind::kSend;
    const uint64_t peer = sends ? node.dst : node.src;
    if (node.kind != Kind::kSend && node.kind != Kind::kReceive) return {};
    if (peer >= inputs_.size())
      return at(rank, node,
                fmt::format("{} rank {}; there are traces of {} ranks, from 0", sends ? "sends to" : "receives from",
                            peer, inputs_.size()));
    if (peer == rank) return at(rank, node, sends ? "sends to itself" : "receives from itself");
    return {};
  }

  void place_node(uint32_t rank, uint32_t i) {
    Placed& placed = placed_[rank][i];
    placed.node = &traces_[rank][i];
    const bool takes_time = placed.node->kind == Kind::kCompute;
    placed.ready = traffic_.add_computation(host(rank), takes_time ? placed.node->duration : 0);
    placed.done = placed.ready;
    if (placed.node->kind == Kind::kCollective) groups_[placed.node->group][rank].push_back(i);
    if (placed.node->kind == Kind::kSend) sends_[{rank, placed.node->dst, placed.node->tag}].push_back(i);
    if (placed.node->kind == Kind::kReceive) receives_[{placed.node->src, rank, placed.node->tag}].push_back(i);
  }

  Status add_collectives() {
    for (const auto& [name, by_rank] : groups_) {
      std::vector<uint32_t> members, hosts;
      if (name.empty() && by_rank.size() != inputs_.size())
        return at(by_rank.begin()->first, *placed_[by_rank.begin()->first][by_rank.begin()->second[0]].node,
                  fmt::format("a collective of all ranks that {} of {} take part in; name its ranks by pg_name",
                              by_rank.size(), inputs_.size()));
      for (const auto& [rank, nodes] : by_rank) {
        members.push_back(rank);
        hosts.push_back(host(rank));
        const auto& first = by_rank.begin()->second;
        if (nodes.size() != first.size())
          return at(rank, *placed_[rank][nodes.back()].node,
                    fmt::format("the last of {} collectives of process group {}, of which rank {} has {}", nodes.size(),
                                shown(name), by_rank.begin()->first, first.size()));
      }
      Communicator communicator(traffic_, 0, hosts, options_.communicators);
      for (size_t k = 0; k < by_rank.begin()->second.size(); ++k)
        ORRERY_TRY(add_collective(communicator, members, by_rank, k));
    }
    return {};
  }

  Status add_collective(Communicator& communicator, const std::vector<uint32_t>& members,
                        const std::map<uint32_t, std::vector<uint32_t>>& by_rank, size_t k) {
    const uint32_t leader = members[0];
    const ChakraNode& first = *placed_[leader][by_rank.at(leader)[k]].node;
    const auto op = op_of_chakra(first.collective);
    if (!op) return at(leader, first, fmt::format("comm_type {} is not simulated", first.collective));
    std::vector<uint32_t> ready;
    for (const uint32_t rank : members) {
      const ChakraNode& node = *placed_[rank][by_rank.at(rank)[k]].node;
      if (node.collective != first.collective || node.bytes != first.bytes || node.root != first.root)
        return at(rank, node,
                  fmt::format("differs in comm_type, comm_size or root from node {} of rank {}, with which it "
                              "is one collective",
                              first.id, leader));
      ready.push_back(placed_[rank][by_rank.at(rank)[k]].ready);
    }
    Collective collective{.op = *op, .bytes = first.collective == 9 ? 8 : first.bytes};
    const auto root = std::find(members.begin(), members.end(), first.root);
    if (root == members.end() && first.root != 0)
      return at(leader, first, fmt::format("root {} is none of its {} ranks", first.root, members.size()));
    if (root != members.end()) collective.root = static_cast<uint32_t>(root - members.begin());
    if (traffic_.tasks.size() + transfers_of(collective, communicator.ranks(), options_.communicators) >
        options_.max_tasks)
      return Error{ErrorCode::kExhausted,
                   fmt::format("{}: the traces take more than the {} sends and computations that "
                               "fit; merge the steps of rings by max_steps",
                               inputs_[leader].name, options_.max_tasks)};
    auto done = communicator.add(collective, ready);
    if (!done) return at(leader, first, done.error().message);
    for (size_t i = 0; i < members.size(); ++i) placed_[members[i]][by_rank.at(members[i])[k]].done = (*done)[i];
    return {};
  }

  Status match_transfers() {
    for (const auto& [key, nodes] : receives_) {
      const auto& [src, dst, tag] = key;
      const auto sent = sends_.find({static_cast<uint32_t>(src), dst, tag});
      if (sent == sends_.end() || sent->second.size() != nodes.size())
        return at(dst, *placed_[dst][nodes.back()].node,
                  fmt::format("receives from rank {} with tag {}, which sends {} times in place of {}", src, tag,
                              sent == sends_.end() ? 0 : sent->second.size(), nodes.size()));
    }
    for (const auto& [key, nodes] : sends_) {
      const auto& [src, dst, tag] = key;
      const auto received = receives_.find({src, static_cast<uint32_t>(dst), tag});
      if (received == receives_.end())
        return at(src, *placed_[src][nodes[0]].node,
                  fmt::format("sends to rank {} with tag {}, which does not receive", dst, tag));
      for (size_t k = 0; k < nodes.size(); ++k) {
        Placed &send = placed_[src][nodes[k]], &receive = placed_[dst][received->second[k]];
        // Receives do not always say how much.
        if (receive.node->bytes != 0 && receive.node->bytes != send.node->bytes)
          return at(static_cast<uint32_t>(dst), *receive.node,
                    fmt::format("receives {} bytes, and node {} of rank {} sends {}", receive.node->bytes,
                                send.node->id, src, send.node->bytes));
        add_transfer(send, receive, src, static_cast<uint32_t>(dst));
      }
    }
    return {};
  }

  void add_transfer(Placed& send, Placed& receive, uint32_t src, uint32_t dst) {
    send.done = traffic_.add_computation(host(src), 0);
    receive.done = traffic_.add_computation(host(dst), 0);
    traffic_.after_task.push_back({receive.ready, receive.done});
    if (host(src) == host(dst)) {
      const CommunicatorOptions& options = options_.communicators;
      const Time time =
          options.nvlink_latency + static_cast<Time>(static_cast<double>(send.node->bytes) * 8e12 / options.nvlink_bps);
      const uint32_t hop = traffic_.add_computation(host(src), time);
      traffic_.after_task.push_back({send.ready, hop});
      traffic_.after_task.push_back({hop, send.done});
      traffic_.after_task.push_back({hop, receive.done});
      return;
    }
    const auto [flow, added] = flows_.try_emplace({src, dst, send.node->tag}, 0);
    if (added) flow->second = traffic_.add_flow({.src = host(src), .dst = host(dst), .channel = tags_[{src, dst}]++});
    const uint32_t transfer = traffic_.add_transfer(flow->second, send.node->bytes);
    traffic_.after_task.push_back({send.ready, traffic_.add_send(transfer, 0, added)});
    traffic_.after_acknowledged.push_back({transfer, send.done});
    traffic_.after_delivered.push_back({transfer, receive.done});
  }

  void add_waits() {
    Round round;
    for (uint32_t rank = 0; rank < inputs_.size(); ++rank) {
      const uint32_t begin = traffic_.add_computation(host(rank), 0), end = traffic_.add_computation(host(rank), 0);
      round.opening.push_back(begin);
      round.closing.push_back(end);
      for (const Placed& placed : placed_[rank]) {
        for (const uint64_t id : placed.node->after)
          traffic_.after_task.push_back({placed_[rank][index_[rank].at(id)].done, placed.ready});
        if (placed.node->after.empty()) traffic_.after_task.push_back({begin, placed.ready});
        traffic_.after_task.push_back({placed.done, end});
      }
    }
    traffic_.rounds.push_back(std::move(round));
  }

  const std::vector<Input>& inputs_;
  const ReadOptions& options_;
  Workload workload_;
  Traffic& traffic_;
  std::vector<std::vector<ChakraNode>> traces_;                              // by rank
  std::vector<std::unordered_map<uint64_t, uint32_t>> index_;                // by rank: id -> node
  std::vector<std::vector<Placed>> placed_;                                  // by rank and node
  std::map<std::string, std::map<uint32_t, std::vector<uint32_t>>> groups_;  // collectives: group -> rank -> nodes
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::vector<uint32_t>> sends_;     // src, dst, tag
  std::map<std::tuple<uint64_t, uint32_t, uint64_t>, std::vector<uint32_t>> receives_;  // src, dst, tag
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, uint32_t> flows_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> tags_;  // how many there are of each pair
};

}  // namespace

Result<Workload> read_chakra(const std::vector<Input>& inputs, const ReadOptions& options) {
  if (inputs.empty()) return Error{ErrorCode::kInvalidArgument, "no traces"};
  return ChakraReader(inputs, options).read();
}

}  // namespace orrery::sim
