// Which operations of a stream have completed, for the whole process: a stream may carry operations of several
// communicators. A stream is only a handle here. NULL orders nothing between communicators (CUDA's NULL stream is one
// per device, and hostnccl has none). Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "tools/lab/hostnccl/include/nccl.h"

namespace orrery::hostnccl {

class StreamOrder {
 public:
  static StreamOrder& instance();  // never destroyed: proxy threads may outlive main()

  // A number for the next launch on `stream`; `operations` completions end it. Operations of one launch may run at the
  // same time.
  uint64_t begin_launch(void* stream, size_t operations);
  // True when everything launched on the stream before has completed. Otherwise `wake_fd` (an eventfd) is written to
  // when it may have.
  bool may_start(void* stream, uint64_t launch, int wake_fd);
  void complete(void* stream, uint64_t launch, ncclResult_t result);
  void forget(int wake_fd);
  // Blocks until everything launched so far has completed; the first error since the last call.
  ncclResult_t synchronize(void* stream);

 private:
  struct State {
    uint64_t launches = 0;
    std::map<uint64_t, size_t> outstanding;  // launch -> operations left
    ncclResult_t error = ncclSuccess;
  };

  std::mutex mutex_;
  std::condition_variable completed_;
  std::map<void*, State> streams_;
  std::set<int> waiting_;
};

}  // namespace orrery::hostnccl
