#include "tools/lab/hostnccl/group.h"

#include <algorithm>
#include <map>

#include "tools/lab/hostnccl/diagnostics.h"
#include "tools/lab/hostnccl/stream_order.h"

namespace orrery::hostnccl {
namespace {

struct PendingOperation {
  Communicator* communicator;
  Operation operation;
};

struct PendingSetUp {
  Communicator* communicator;
  std::function<Status()> job;
  std::function<void()> on_failure;
  ncclResult_t result = ncclSuccess;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<PendingOperation> operations;
  std::vector<PendingSetUp> set_ups;
};

thread_local Group group;  // NCCL's groups are per thread by definition

void run_set_up(PendingSetUp& pending) {
  if (pending.communicator) {
    pending.result = pending.communicator->set_up(std::move(pending.job));
  } else if (const Status status = pending.job(); !status) {
    pending.result = report(status.error());
  }
}

// The ranks of one process must join at the same time: a thread for each when there are several.
ncclResult_t run_set_ups(std::vector<PendingSetUp> set_ups) {
  if (set_ups.size() == 1) {
    run_set_up(set_ups.front());
  } else {
    std::vector<std::thread> threads;
    for (auto& pending : set_ups) threads.emplace_back([&pending] { run_set_up(pending); });
    for (auto& thread : threads) thread.join();
  }
  ncclResult_t result = ncclSuccess;
  for (auto& pending : set_ups) {
    if (pending.result == ncclSuccess) continue;
    if (pending.result == ncclInProgress) {
      if (result == ncclSuccess) result = ncclInProgress;
      continue;
    }
    result = pending.result;
    if (pending.on_failure) pending.on_failure();
  }
  return result;
}

bool is_message(const Operation& operation) {
  return operation.kind == OperationKind::kSend || operation.kind == OperationKind::kRecv;
}

// Per communicator: its collectives in order, then its messages together.
void launch(std::vector<PendingOperation> operations) {
  std::map<void*, size_t> per_stream;
  for (const auto& pending : operations) ++per_stream[pending.operation.stream];
  std::map<void*, uint64_t> launches;
  for (const auto& [stream, count] : per_stream) {
    launches[stream] = StreamOrder::instance().begin_launch(stream, count);
  }
  std::vector<Communicator*> communicators;
  for (auto& pending : operations) {
    pending.operation.launch = launches[pending.operation.stream];
    if (std::find(communicators.begin(), communicators.end(), pending.communicator) == communicators.end()) {
      communicators.push_back(pending.communicator);
    }
  }
  for (Communicator* communicator : communicators) {
    Work messages;
    for (const auto& pending : operations) {
      if (pending.communicator != communicator) continue;
      if (is_message(pending.operation)) {
        messages.operations.push_back(pending.operation);
      } else {
        communicator->enqueue({{pending.operation}});
      }
    }
    if (!messages.operations.empty()) communicator->enqueue(std::move(messages));
  }
}

}  // namespace

void group_start() {
  ++group.depth;
}

ncclResult_t refuse(ncclResult_t result) {
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

ncclResult_t group_end() {
  if (group.depth == 0) {
    return report(ncclInvalidUsage, "ncclGroupEnd was called without an open ncclGroupStart on this thread");
  }
  if (--group.depth > 0) return ncclSuccess;
  Group ended = std::exchange(group, {});
  if (ended.error != ncclSuccess) {
    for (auto& pending : ended.set_ups) {
      if (pending.on_failure) pending.on_failure();
    }
    return ended.error;
  }
  ncclResult_t result = ncclSuccess;
  if (!ended.set_ups.empty()) result = run_set_ups(std::move(ended.set_ups));
  if (result == ncclSuccess || result == ncclInProgress) launch(std::move(ended.operations));
  return result;
}

ncclResult_t add_operation(Communicator& communicator, const Operation& operation) {
  group_start();
  group.operations.push_back({&communicator, operation});
  return group_end();
}

ncclResult_t add_set_up(Communicator* communicator, std::function<Status()> job, std::function<void()> on_failure) {
  group_start();
  group.set_ups.push_back({communicator, std::move(job), std::move(on_failure)});
  return group_end();
}

}  // namespace orrery::hostnccl
