// The ranks' meeting point outside the library under test: a star of TCP connections to rank 0. Blocking, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace orrery::bench {

class Rendezvous {
 public:
  // Waits for all ranks, at most `timeout_s`. `master` is host:port; rank 0 listens on that port.
  static Result<Rendezvous> meet(const std::string& master, int rank, int nranks, double timeout_s);

  // Rank 0's bytes to everyone.
  Status broadcast(void* data, size_t bytes);
  // Everyone's bytes to rank 0, one entry per rank (empty elsewhere). Sizes may differ.
  Result<std::vector<std::vector<char>>> gather(const void* data, size_t bytes);
  Status barrier();

 private:
  Rendezvous(int rank, int nranks) : rank_(rank), nranks_(nranks) {}
  int rank_;
  int nranks_;
  std::vector<UniqueFd> peers_;  // rank 0: by rank (own entry empty); others: rank 0 only
};

}  // namespace orrery::bench
