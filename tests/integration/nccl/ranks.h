// Runs a function as several ranks, one process each, and collects what they found wrong. Bounded: a rank that hangs is
// killed.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/lab/hostnccl/include/nccl.h"

namespace orrery::test {

struct RankContext {
  int rank = 0;
  int nranks = 1;
  ncclUniqueId id{};  // the same for all
};

// Ends this rank with `what` as its finding.
struct Finding : std::runtime_error {
  using std::runtime_error::runtime_error;
};
void expect(bool condition, const std::string& what);
void expect_success(ncclResult_t result, const std::string& what);

// One text per rank, empty when it found nothing wrong. A rank that exits otherwise has "killed by signal N" or "exit
// code N".
std::vector<std::string> run_ranks(int nranks, const std::function<void(RankContext&)>& body, int timeout_s = 60);

// All texts of ranks that found something, for a test's message.
std::string findings(const std::vector<std::string>& texts);

}  // namespace orrery::test
