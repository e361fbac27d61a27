// One operation as the caller enqueued it, and the header with which neighbours check that they run the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/lab/hostnccl/include/nccl.h"
#include "tools/lab/hostnccl/reduce.h"

namespace orrery::hostnccl {

enum class OperationKind : uint16_t { kAllReduce = 1, kAllGather, kReduceScatter, kBroadcast, kReduce, kSend, kRecv };

const char* name_of(OperationKind kind);

// The buffers stay the caller's and must not change until the operation completes on its stream.
struct Operation {
  OperationKind kind = OperationKind::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // elements, in the meaning of the NCCL call
  ncclDataType_t type = ncclInt8;
  Reduction reduction;                  // reducing kinds
  const void* device_scalar = nullptr;  // a pre-multiplied sum whose scalar is read when the operation starts
  ncclRedOp_t op = ncclSum;             // as the caller named it
  int peer = 0;                         // root or peer
  void* stream = nullptr;
  uint64_t launch = 0;  // see StreamOrder
};

// Precedes an operation's bytes on each connection that it uses.
struct OperationHeader {
  uint32_t magic = 0;
  OperationKind kind = OperationKind::kAllReduce;
  uint8_t type = 0;
  uint8_t op = 0;
  uint64_t count = 0;
  uint64_t sequence = 0;  // operations before this one (collectives on the communicator; messages on the pair)
};
static_assert(sizeof(OperationHeader) == 24);

inline constexpr uint32_t kOperationMagic = 0x4f484f50u;

// Bytes of the buffers that a rank's part of a collective reads and writes; 0: it does not touch that one.
size_t bytes_read(const Operation& operation, int rank, int nranks);
size_t bytes_written(const Operation& operation, int rank, int nranks);

OperationHeader make_header(const Operation& operation, uint64_t sequence);
// Empty when both are the same operation; else what differs, for the user.
std::string mismatch(const OperationHeader& own, const OperationHeader& theirs, const std::string& peer);

}  // namespace orrery::hostnccl
