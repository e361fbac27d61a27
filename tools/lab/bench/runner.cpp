#include "tools/lab/bench/runner.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/clock.h"
#include "tools/lab/hostnccl/reduce.h"

namespace orrery::bench {
namespace {

constexpr size_t kPhaseStep = 977;  // between iterations: stale data has the wrong phase
constexpr size_t kBlockStep = 331;  // between destinations of an all-to-all
constexpr int kEstimateWarmup = 1;  // iterations that --duration-s needs to judge by

void pause_us(int microseconds) {
  if (microseconds <= 0) return;
  const timespec duration{microseconds / 1'000'000, microseconds % 1'000'000 * 1000L};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
}

void* at(void* base, size_t bytes) {
  return static_cast<char*>(base) + bytes;
}

}  // namespace

double bus_factor(Collective collective, int nranks) {
  const double n = nranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return (n - 1) / n;
    default:
      return 1;
  }
}

Runner::Runner(const Options& options, const Placement& placement, ncclComm_t comm, Memory& memory,
               Rendezvous& rendezvous, std::FILE* iterations_file)
    : options_(options),
      placement_(placement),
      comm_(comm),
      memory_(memory),
      rendezvous_(rendezvous),
      iterations_file_(iterations_file),
      element_bytes_(hostnccl::element_bytes(options.datatype)),
      tolerance_(reduces(options.collective) ? tolerance_of(options.datatype, placement.nranks) : 0) {
  for (int rank = 0; rank < placement.nranks; ++rank) {
    inputs_.emplace_back(options.datatype, [&](size_t index) {
      return reduces(options.collective) ? reduction_input(options.op, index, rank, placement.nranks)
                                         : moved_value(index, rank);
    });
    if (reduces(options.collective) && rank == 0) {
      result_.emplace_back(options.datatype, [&](size_t index) {
        return reduction_result(options.op, options.datatype, index, placement.nranks);
      });
    }
  }
}

Runner::Shape Runner::shape_of(uint64_t bytes) const {
  const size_t total = bytes / element_bytes_;
  const auto n = static_cast<size_t>(placement_.nranks);
  const size_t each = total / n;
  switch (options_.collective) {
    case Collective::kAllGather:
      return {each, each, each * n};
    case Collective::kReduceScatter:
      return {each, each * n, each};
    case Collective::kAllToAll:
      return {each, each * n, each * n};
    default:
      return {total, total, total};
  }
}

Result<Runner::Buffers> Runner::allocate(const Shape& shape) {
  Buffers buffers;
  const size_t bytes = std::max(shape.recv_count, options_.in_place ? shape.send_count : 0) * element_bytes_;
  ORRERY_ASSIGN(buffers.recv, memory_.allocate(bytes));
  if (!options_.in_place) {
    ORRERY_ASSIGN(buffers.send, memory_.allocate(shape.send_count * element_bytes_));
    buffers.send_host = buffers.send.host;
    buffers.send_handed = buffers.send.handed;
    return buffers;
  }
  const size_t offset = options_.collective == Collective::kAllGather
                            ? static_cast<size_t>(placement_.rank) * shape.count * element_bytes_
                            : 0;
  buffers.send_host = at(buffers.recv.host, offset);
  buffers.send_handed = at(buffers.recv.handed, offset);
  return buffers;
}

void Runner::release(Buffers& buffers) {
  memory_.release(buffers.recv);
  if (!options_.in_place) memory_.release(buffers.send);
}

void Runner::fill(const Shape& shape, const Buffers& buffers, size_t phase) const {
  const Pattern& own = inputs_[static_cast<size_t>(placement_.rank)];
  if (options_.collective != Collective::kAllToAll) return own.fill(buffers.send_host, shape.send_count, phase);
  for (size_t peer = 0; peer < inputs_.size(); ++peer) {
    own.fill(at(buffers.send_host, peer * shape.count * element_bytes_), shape.count, phase + peer * kBlockStep);
  }
}

ncclResult_t Runner::call(const Shape& shape, const Buffers& buffers) const {
  const void* send = buffers.send_handed;
  void* recv = buffers.recv.handed;
  const ncclDataType_t type = options_.datatype;
  const cudaStream_t stream = memory_.stream();
  switch (options_.collective) {
    case Collective::kAllReduce:
      return ncclAllReduce(send, recv, shape.count, type, options_.op, comm_, stream);
    case Collective::kAllGather:
      return ncclAllGather(send, recv, shape.count, type, comm_, stream);
    case Collective::kReduceScatter: {
      const size_t offset = static_cast<size_t>(placement_.rank) * shape.count * element_bytes_;
      void* own = options_.in_place ? at(recv, offset) : recv;
      return ncclReduceScatter(send, own, shape.count, type, options_.op, comm_, stream);
    }
    case Collective::kBroadcast:
      return ncclBroadcast(send, recv, shape.count, type, options_.root, comm_, stream);
    case Collective::kReduce:
      return ncclReduce(send, recv, shape.count, type, options_.op, options_.root, comm_, stream);
    case Collective::kAllToAll:
      return call_all_to_all(shape, buffers);
    case Collective::kSendRecv:
      return call_send_recv(shape, buffers);
  }
  return ncclInternalError;
}

ncclResult_t Runner::call_all_to_all(const Shape& shape, const Buffers& buffers) const {
  ncclResult_t result = ncclGroupStart();
  for (int peer = 0; peer < placement_.nranks && result == ncclSuccess; ++peer) {
    const size_t offset = static_cast<size_t>(peer) * shape.count * element_bytes_;
    result = ncclSend(at(buffers.send_handed, offset), shape.count, options_.datatype, peer, comm_, memory_.stream());
    if (result != ncclSuccess) break;
    result = ncclRecv(at(buffers.recv.handed, offset), shape.count, options_.datatype, peer, comm_, memory_.stream());
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}

ncclResult_t Runner::call_send_recv(const Shape& shape, const Buffers& buffers) const {
  const int n = placement_.nranks;
  const int next = (placement_.rank + 1) % n;
  const int previous = (placement_.rank + n - 1) % n;
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) {
    result = ncclSend(buffers.send_handed, shape.count, options_.datatype, next, comm_, memory_.stream());
  }
  if (result == ncclSuccess) {
    result = ncclRecv(buffers.recv.handed, shape.count, options_.datatype, previous, comm_, memory_.stream());
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}

uint64_t Runner::count_wrong(const Shape& shape, const Buffers& buffers, size_t phase) const {
  const auto rank = static_cast<size_t>(placement_.rank);
  const auto n = static_cast<size_t>(placement_.nranks);
  void* recv = buffers.recv.host;
  const size_t block_bytes = shape.count * element_bytes_;
  uint64_t wrong = 0;
  switch (options_.collective) {
    case Collective::kReduce:
      if (placement_.rank != options_.root) return 0;
      [[fallthrough]];
    case Collective::kAllReduce:
      return result_[0].count_wrong(recv, shape.count, phase, tolerance_);
    case Collective::kReduceScatter:
      if (options_.in_place) recv = at(recv, rank * block_bytes);
      return result_[0].count_wrong(recv, shape.count, phase + rank * shape.count, tolerance_);
    case Collective::kBroadcast:
      return inputs_[static_cast<size_t>(options_.root)].count_wrong(recv, shape.count, phase, 0);
    case Collective::kSendRecv:
      return inputs_[(rank + n - 1) % n].count_wrong(recv, shape.count, phase, 0);
    case Collective::kAllGather:
      for (size_t peer = 0; peer < n; ++peer) {
        wrong += inputs_[peer].count_wrong(at(recv, peer * block_bytes), shape.count, phase, 0);
      }
      return wrong;
    case Collective::kAllToAll:
      for (size_t peer = 0; peer < n; ++peer) {
        wrong += inputs_[peer].count_wrong(at(recv, peer * block_bytes), shape.count, phase + rank * kBlockStep, 0);
      }
      return wrong;
  }
  return wrong;
}

// Milliseconds from the call to its completion on this rank.
Result<double> Runner::iterate(const Shape& shape, const Buffers& buffers, size_t phase) {
  fill(shape, buffers, phase);
  ORRERY_TRY(memory_.upload(options_.in_place ? buffers.recv : buffers.send));
  if (options_.barrier) ORRERY_TRY(rendezvous_.barrier());
  pause_us(options_.compute_gap_us);
  const uint64_t start = monotonic_now_ns();
  if (const ncclResult_t result = call(shape, buffers); result != ncclSuccess && result != ncclInProgress) {
    return nccl_error(options_.collective_name, result);
  }
  ORRERY_TRY(memory_.synchronize());
  return static_cast<double>(monotonic_now_ns() - start) * 1e-6;
}

// Rank 0 decides, so that all ranks do the same number.
Result<int> Runner::agree_on_iterations(double warmup_ms) const {
  int iterations = options_.iterations;
  if (options_.duration_s > 0 && warmup_ms > 0) {
    const double fit = options_.duration_s * 1e3 / (warmup_ms + options_.compute_gap_us * 1e-3);
    iterations = static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(iterations)));
  }
  if (placement_.nranks > 1) ORRERY_TRY(rendezvous_.broadcast(&iterations, sizeof iterations));
  return iterations;
}

void Runner::note_iteration(uint64_t bytes, int index, double milliseconds) {
  if (!iterations_file_) return;
  const uint64_t end = read_clock_ns(CLOCK_REALTIME);
  std::fprintf(iterations_file_, "%llu,%d,%llu,%.1f\n", static_cast<unsigned long long>(bytes), index,
               static_cast<unsigned long long>(end - static_cast<uint64_t>(milliseconds * 1e6)), milliseconds * 1e3);
  std::fflush(iterations_file_);
}

// One iteration and, when asked to, the check of its data.
Result<double> Runner::iterate_and_check(const Shape& shape, const Buffers& buffers, bool check, SizeResult& result) {
  const size_t phase = iteration_number_++ * kPhaseStep;
  ORRERY_ASSIGN(const double milliseconds, iterate(shape, buffers, phase));
  if (check) {
    ORRERY_TRY(memory_.download(buffers.recv));
    result.wrong += count_wrong(shape, buffers, phase);
    ++result.checked;
  }
  return milliseconds;
}

Status Runner::measure(const Shape& shape, const Buffers& buffers, SizeResult& result) {
  ORRERY_TRY(rendezvous_.barrier());
  const bool every = options_.check == Check::kEvery;
  const bool ends = options_.check != Check::kOff;
  const int warmup = options_.duration_s > 0 ? std::max(options_.warmup, kEstimateWarmup) : options_.warmup;
  double warmup_ms = 0;
  for (int i = 0; i < warmup; ++i) {
    ORRERY_ASSIGN(warmup_ms, iterate_and_check(shape, buffers, every || (ends && i == 0), result));
  }
  ORRERY_ASSIGN(const int iterations, agree_on_iterations(warmup_ms));
  for (int i = 0; i < iterations; ++i) {
    const bool at_end = i == iterations - 1 || (i == 0 && warmup == 0);
    ORRERY_ASSIGN(const double milliseconds, iterate_and_check(shape, buffers, every || (ends && at_end), result));
    result.iterations_ms.push_back(milliseconds);
    note_iteration(result.bytes, i, milliseconds);
  }
  return {};
}

// Slowest rank per iteration, wrong elements of all ranks; rank 0 tells the others the latter.
Status Runner::combine_ranks(SizeResult& result) {
  if (placement_.nranks == 1) return {};
  std::vector<double> own = result.iterations_ms;
  own.push_back(static_cast<double>(result.wrong));
  ORRERY_ASSIGN(const auto all, rendezvous_.gather(own.data(), own.size() * sizeof(double)));
  if (placement_.rank == 0) {
    result.wrong = 0;
    for (const auto& bytes : all) {
      if (bytes.size() != own.size() * sizeof(double))
        return Error{ErrorCode::kCorrupt, "ranks ran different iterations"};
      std::vector<double> values(own.size());
      std::memcpy(values.data(), bytes.data(), bytes.size());
      for (size_t i = 0; i + 1 < values.size(); ++i)
        result.iterations_ms[i] = std::max(result.iterations_ms[i], values[i]);
      result.wrong += static_cast<uint64_t>(values.back());
    }
  }
  return rendezvous_.broadcast(&result.wrong, sizeof result.wrong);
}

Result<SizeResult> Runner::run(uint64_t bytes) {
  const Shape shape = shape_of(bytes);
  SizeResult result{.bytes = std::max(shape.send_count, shape.recv_count) * element_bytes_, .count = shape.count};
  ORRERY_ASSIGN(Buffers buffers, allocate(shape));
  const Status measured = measure(shape, buffers, result);
  release(buffers);
  ORRERY_TRY(measured);
  ORRERY_TRY(combine_ranks(result));
  return result;
}

}  // namespace orrery::bench
