#include <algorithm>

#include "tools/lab/hostnccl/ring.h"

namespace orrery::hostnccl {
namespace {

constexpr size_t kMinSliceBytes = 4096;
constexpr size_t kPipelineSlices = 8;  // a chunk is cut into about as many, so that small operations pipeline too

size_t divide_up(size_t value, size_t by) {
  return (value + by - 1) / by;
}

}  // namespace

RingPlan::RingPlan(const Operation& operation, int rank, int nranks, const SharedSettings& shared, uint32_t channel)
    : operation_(operation),
      rank_(static_cast<size_t>(rank)),
      nranks_(static_cast<size_t>(nranks)),
      element_bytes_(element_bytes(operation.type)),
      max_slice_(shared.slice_bytes / element_bytes_) {
  const size_t share = divide_up(operation.count, shared.channels);
  begin_ = std::min(share * channel, operation.count);
  const size_t elements = std::min(share, operation.count - begin_);
  const auto root = static_cast<size_t>(operation.peer);
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      rounds_ = 2 * nranks_ - 1;
      break;
    case OperationKind::kAllGather:
    case OperationKind::kReduceScatter:
      rounds_ = nranks_;
      break;
    case OperationKind::kBroadcast:
      position_ = (rank_ + nranks_ - root) % nranks_;
      break;
    default:
      position_ = (rank_ + nranks_ - root - 1 + nranks_) % nranks_;
      break;  // reduce: the root is last
  }
  if (rounds_ == 1) {
    receives_ = position_ != 0;
    sends_ = position_ != nranks_ - 1;
  }
  const size_t chunks = operation.kind == OperationKind::kAllReduce ? nranks_ : 1;
  const size_t loop = max_slice_ * kMaxSlices * chunks;
  full_loops_ = elements / loop;
  full_ = shape_of(loop);
  tail_ = shape_of(elements % loop);
}

RingPlan::Shape RingPlan::shape_of(size_t elements) const {
  Shape shape{.elements = elements, .rounds = rounds_};
  shape.chunk = operation_.kind == OperationKind::kAllReduce ? divide_up(elements, nranks_) : elements;
  if (shape.chunk == 0) return shape;
  const size_t least = std::max<size_t>(kMinSliceBytes / element_bytes_, 1);
  shape.slice = std::clamp(divide_up(shape.chunk, kPipelineSlices), least, max_slice_);
  shape.slices = divide_up(shape.chunk, shape.slice);
  return shape;
}

// Which rank's block this rank handles in a round. What rank r sends in round t, rank r+1 receives in round t+1.
size_t RingPlan::block_of(size_t round) const {
  const size_t back = operation_.kind == OperationKind::kReduceScatter ? round + 1 : round;
  return (rank_ + 2 * nranks_ - back) % nranks_;
}

void RingPlan::set_role(SliceStep& step, size_t round) const {
  const size_t last_reduction = nranks_ - 1;
  switch (operation_.kind) {
    case OperationKind::kAllReduce:
      step.receives = round > 0;
      step.reduces = round <= last_reduction;
      step.finishes = round == last_reduction;
      step.sends = round + 1 < rounds_;
      break;
    case OperationKind::kReduceScatter:
      step.receives = round > 0;
      step.reduces = true;
      step.finishes = round == last_reduction;
      step.sends = !step.finishes;
      break;
    case OperationKind::kAllGather:
      step.receives = round > 0;
      step.sends = round + 1 < rounds_;
      break;
    case OperationKind::kBroadcast:
      step.receives = receives_;
      step.sends = sends_;
      break;
    default:
      step.receives = receives_;
      step.reduces = true;
      step.finishes = !sends_;
      step.sends = sends_;
      break;
  }
}

SliceStep RingPlan::at(size_t index) const {
  const size_t loop = std::min(index / full_.steps(), full_loops_);
  const Shape& shape = loop < full_loops_ ? full_ : tail_;
  const size_t within = index - loop * full_.steps();
  const size_t round = within / shape.slices;
  const size_t slice = within % shape.slices;
  SliceStep step;
  set_role(step, round);

  const bool whole_buffer = operation_.kind == OperationKind::kAllReduce;  // its chunks divide one buffer
  const size_t block = rounds_ == 1 ? 0 : block_of(round);
  const size_t chunk_begin = whole_buffer ? std::min(block * shape.chunk, shape.elements) : 0;
  const size_t chunk_end = std::min(chunk_begin + shape.chunk, shape.elements);
  const size_t first = std::min(chunk_begin + slice * shape.slice, chunk_end);
  const size_t count = std::min(shape.slice, chunk_end - first);
  const size_t offset = (begin_ + loop * full_.elements + first) * element_bytes_;
  const size_t block_offset = whole_buffer ? 0 : block * operation_.count * element_bytes_;
  const auto* send = static_cast<const uint8_t*>(operation_.send);
  auto* recv = static_cast<uint8_t*>(operation_.recv);
  step.bytes = count * element_bytes_;

  switch (operation_.kind) {
    case OperationKind::kAllReduce:
      if (step.reduces) step.local = send + offset;
      if (step.receives || operation_.reduction.scales_input) step.out = recv + offset;
      break;
    case OperationKind::kReduceScatter:
      step.local = send + block_offset + offset;
      if (step.finishes) step.out = recv + offset;
      break;
    case OperationKind::kAllGather:
      if (!step.receives) step.local = send + offset;
      step.out = recv + block_offset + offset;
      break;
    case OperationKind::kBroadcast:
      if (!step.receives) step.local = send + offset;
      step.out = recv + offset;
      break;
    default:
      step.local = send + offset;
      if (step.finishes) step.out = recv + offset;
      break;
  }
  return step;
}

}  // namespace orrery::hostnccl
