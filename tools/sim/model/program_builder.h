// Puts a Program together piece by piece, in any order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/sim/model/program.h"

namespace orrery::sim {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const fabric::Graph& graph) : graph_(graph) {}

  // Equal paths are stored once. Precondition: at most kMaxPathLinks links.
  uint32_t add_path(const fabric::Path& path);
  // Hosts are indices into Graph::nics(); ACKs go back over the same cables. The first path is the one it begins with.
  // Precondition: at least one path.
  uint32_t add_qp(uint32_t src, uint32_t dst, const std::vector<fabric::Path>& paths,
                  PathPolicy policy = PathPolicy::kStatic, uint64_t pace_bps = 0);
  // Messages of one queue pair are sent in the order of these calls. A message is released by a step.
  uint32_t add_message(uint32_t qp, uint64_t bytes);
  // What releases `message`, on its sender; with no predecessor it is done `delay` after the start.
  uint32_t add_send_step(uint32_t message, Time delay = 0);
  // A computation.
  uint32_t add_step(uint32_t host, Time delay);

  void align(uint32_t step, const Alignment& to);
  void after_step(uint32_t step, uint32_t then);
  void after_delivered(uint32_t message, uint32_t then);     // `then` is on the receiver
  void after_acknowledged(uint32_t message, uint32_t then);  // `then` is on the sender

  // Once, as the last call. Message and step numbers stay as they were given. Errors: kInvalidArgument names a
  // successor on another host.
  Result<Program> build();

 private:
  struct Edge {
    uint32_t from, to;
  };
  uint32_t number_path(const fabric::Path& path);
  std::vector<Successors> place(const std::vector<Edge>& edges, size_t count, Program& program);

  const fabric::Graph& graph_;
  std::map<fabric::Path, uint32_t> paths_;
  std::vector<PathLinks> path_links_;
  std::vector<uint32_t> reverse_of_;
  std::vector<uint32_t> qp_paths_;
  std::vector<QueuePair> qps_;
  std::vector<Message> messages_;
  std::vector<Step> steps_;
  std::vector<Alignment> alignments_;
  std::vector<Edge> after_step_, after_delivered_, after_acknowledged_;
};

}  // namespace orrery::sim
