// Runs one size: fills, calls the library, waits, checks, and times the part from call to completion.
#pragma once

#include <cstdio>
#include <vector>

#include "tools/lab/bench/memory.h"
#include "tools/lab/bench/options.h"
#include "tools/lab/bench/pattern.h"
#include "tools/lab/bench/rendezvous.h"

namespace orrery::bench {

// Of one size, the slowest rank's time per iteration; on rank 0 (elsewhere only `wrong` is meaningful).
struct SizeResult {
  uint64_t bytes = 0;  // as nccl-tests counts: the larger of the send and receive buffers
  uint64_t count = 0;  // the call's element count
  std::vector<double> iterations_ms;
  uint64_t wrong = 0;    // elements, all ranks and iterations
  uint64_t checked = 0;  // iterations whose data was checked
};

// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it.
double bus_factor(Collective collective, int nranks);

class Runner {
 public:
  // `iterations_file` may be null. All references outlive the runner.
  Runner(const Options& options, const Placement& placement, ncclComm_t comm, Memory& memory, Rendezvous& rendezvous,
         std::FILE* iterations_file);
  Result<SizeResult> run(uint64_t bytes);

 private:
  struct Shape {
    size_t count = 0;       // the call's
    size_t send_count = 0;  // elements in each buffer
    size_t recv_count = 0;
  };
  struct Buffers {
    Buffer send;
    Buffer recv;
    void* send_host = nullptr;  // inside recv when in place
    void* send_handed = nullptr;
  };

  Shape shape_of(uint64_t bytes) const;
  Result<Buffers> allocate(const Shape& shape);
  void release(Buffers& buffers);
  void fill(const Shape& shape, const Buffers& buffers, size_t phase) const;
  ncclResult_t call(const Shape& shape, const Buffers& buffers) const;
  ncclResult_t call_all_to_all(const Shape& shape, const Buffers& buffers) const;
  ncclResult_t call_send_recv(const Shape& shape, const Buffers& buffers) const;
  uint64_t count_wrong(const Shape& shape, const Buffers& buffers, size_t phase) const;
  Result<double> iterate(const Shape& shape, const Buffers& buffers, size_t phase);
  Result<double> iterate_and_check(const Shape& shape, const Buffers& buffers, bool check, SizeResult& result);
  Result<int> agree_on_iterations(double warmup_ms) const;
  Status measure(const Shape& shape, const Buffers& buffers, SizeResult& result);
  Status combine_ranks(SizeResult& result);
  void note_iteration(uint64_t bytes, int index, double milliseconds);

  const Options& options_;
  const Placement& placement_;
  ncclComm_t comm_;
  Memory& memory_;
  Rendezvous& rendezvous_;
  std::FILE* iterations_file_;
  size_t element_bytes_;
  double tolerance_;
  std::vector<Pattern> inputs_;  // by rank, of the data that this rank sends or expects
  std::vector<Pattern> result_;  // one, when the collective reduces
  size_t iteration_number_ = 0;
};

}  // namespace orrery::bench
