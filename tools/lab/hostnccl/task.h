// A task is a started operation (or batch of point-to-point messages) that the proxy thread advances until it is done.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "tools/lab/hostnccl/operation.h"
#include "tools/lab/hostnccl/settings.h"
#include "tools/lab/hostnccl/transport.h"

namespace orrery::hostnccl {

class Task {
 public:
  virtual ~Task() = default;
  // Computes and posts what it can without waiting. True when this rank's part is complete. An error ends the
  // communicator.
  virtual Result<bool> advance() = 0;
  // True when completion still depends on that rank.
  virtual bool waits_for(int rank) const = 0;
};

// What tasks of one communicator share. Owned by the proxy.
struct TaskContext {
  int rank = 0;
  int nranks = 1;
  SharedSettings shared;
  Transport* transport = nullptr;  // null when nranks == 1
};

}  // namespace orrery::hostnccl
