// The sends and receives of one group, in flight together; and the operations of a communicator with a single rank.
#pragma once

#include <map>
#include <vector>

#include "tools/lab/hostnccl/task.h"

namespace orrery::hostnccl {

// Messages so far with each peer, so that both ends can tell that they mean the same one.
struct MessageCounters {
  std::map<int, uint64_t> sent;
  std::map<int, uint64_t> received;
};

// `counters` outlives the task. Sends to the own rank are matched with its receives in order; kRefused when they do not
// pair up.
Result<std::unique_ptr<Task>> make_point_to_point_task(const std::vector<Operation>& operations,
                                                       const TaskContext& context, MessageCounters& counters);

// What a collective means with one rank: a copy, scaled or divided as the reduction says.
void run_alone(const Operation& operation);

}  // namespace orrery::hostnccl
