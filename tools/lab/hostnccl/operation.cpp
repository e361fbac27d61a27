#include "tools/lab/hostnccl/operation.h"

#include <algorithm>

namespace orrery::hostnccl {
namespace {

std::string describe_header(const OperationHeader& header) {
  return std::string(name_of(header.kind)) + " of " + std::to_string(header.count) + " elements of type " +
         std::to_string(header.type) + " as operation " + std::to_string(header.sequence);
}

}  // namespace

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "AllReduce";
    case OperationKind::kAllGather:
      return "AllGather";
    case OperationKind::kReduceScatter:
      return "ReduceScatter";
    case OperationKind::kBroadcast:
      return "Broadcast";
    case OperationKind::kReduce:
      return "Reduce";
    case OperationKind::kSend:
      return "Send";
    case OperationKind::kRecv:
      return "Recv";
  }
  return "unknown operation";
}

size_t bytes_read(const Operation& operation, int rank, int nranks) {
  const size_t bytes = operation.count * element_bytes(operation.type);
  if (operation.kind == OperationKind::kBroadcast && operation.peer != rank) return 0;
  return operation.kind == OperationKind::kReduceScatter ? bytes * static_cast<size_t>(nranks) : bytes;
}

size_t bytes_written(const Operation& operation, int rank, int nranks) {
  const size_t bytes = operation.count * element_bytes(operation.type);
  if (operation.kind == OperationKind::kReduce && operation.peer != rank) return 0;
  return operation.kind == OperationKind::kAllGather ? bytes * static_cast<size_t>(nranks) : bytes;
}

OperationHeader make_header(const Operation& operation, uint64_t sequence) {
  const bool message = operation.kind == OperationKind::kSend || operation.kind == OperationKind::kRecv;
  return {.magic = kOperationMagic,
          .kind = message ? OperationKind::kSend : operation.kind,
          // A message may be sent as one type and received as another of the same size, as in NCCL.
          .type = static_cast<uint8_t>(message ? ncclInt8 : operation.type),
          .op = static_cast<uint8_t>(std::min<int>(operation.op, ncclNumOps)),
          .count = message ? operation.count * element_bytes(operation.type) : operation.count,
          .sequence = sequence};
}

std::string mismatch(const OperationHeader& own, const OperationHeader& theirs, const std::string& peer) {
  const bool same = own.magic == theirs.magic && own.kind == theirs.kind && own.type == theirs.type &&
                    own.op == theirs.op && own.count == theirs.count && own.sequence == theirs.sequence;
  if (same) return {};
  if (theirs.magic != kOperationMagic) return peer + " sent bytes that are no operation of hostnccl";
  return peer + " runs " + describe_header(theirs) + ", this rank " + describe_header(own) +
         ": all ranks must call the same operations with the same arguments in the same order";
}

}  // namespace orrery::hostnccl
