// Which network a communicator takes where RDMA is not to be had: the library named by NCCL_IBVERBS_LIB lacks
// functions.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/integration/nccl/ranks.h"

namespace orrery::test {
namespace {

// The environment of the ranks: set before they fork, since the log's is read once.
class Log {
 public:
  Log() {
    ::close(::mkstemp(path_));
    ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    ::setenv("NCCL_IBVERBS_LIB", ORRERY_INCOMPLETE_IBVERBS, 1);
    ::setenv("NCCL_DEBUG", "WARN", 1);
    ::setenv("NCCL_DEBUG_FILE", path_, 1);
  }
  ~Log() { ::unlink(path_); }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

 private:
  char path_[32] = "/tmp/hostnccl-log.XXXXXX";
};

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void sum_up(RankContext& context) {
  ncclComm_t comm = nullptr;
  expect_success(ncclCommInitRank(&comm, context.nranks, context.id, context.rank), "ncclCommInitRank");
  int32_t value = 1;
  expect_success(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), "AllReduce");
  expect_success(hostncclStreamSynchronize(nullptr), "completion");
  expect(value == context.nranks, "wrong sum");
  expect_success(ncclCommDestroy(comm), "Destroy");
}

TEST_CASE("a libibverbs that lacks a function leaves sockets, with one line that names it") {
  const Log log;
  const auto found = run_ranks(1, sum_up);
  INFO(findings(found));
  CHECK(findings(found).empty());
  const std::string text = log.text();
  INFO(text);
  CHECK(count_of(text, "incomplete_ibverbs.so lacks ibv_get_device_name@IBVERBS_1.1; falling back to sockets") == 1);
  CHECK(count_of(text, "\n") == 2);  // and the version
}

TEST_CASE("ranks with sockets only work together when RDMA is out of reach") {
  const Log log;
  const auto found = run_ranks(2, sum_up);
  INFO(findings(found));
  CHECK(findings(found).empty());
}

TEST_CASE("sockets that the user demands need no libibverbs and no line about it") {
  const Log log;
  const auto found = run_ranks(1, [](RankContext& context) {
    ::setenv("NCCL_NET", "Socket", 1);
    sum_up(context);
  });
  INFO(findings(found));
  CHECK(findings(found).empty());
  CHECK(count_of(log.text(), "NET/IB") == 0);
}

TEST_CASE("RDMA that the user demands and cannot have is an error that says why") {
  const Log log;
  const auto found = run_ranks(1, [](RankContext& context) {
    ::setenv("NCCL_NET", "IB", 1);
    ncclComm_t comm = nullptr;
    const auto result = ncclCommInitRank(&comm, context.nranks, context.id, context.rank);
    expect(result == ncclRemoteError, "ncclCommInitRank returned " + std::to_string(result));
    const std::string reason = ncclGetLastError(nullptr);
    expect(reason.find("NCCL_NET=IB, but: ") == 0 && reason.find("lacks ibv_get_device_name") != std::string::npos,
           "reason: " + reason);
  });
  INFO(findings(found));
  CHECK(findings(found).empty());
}

TEST_CASE("a network that does not exist is refused with the two that do") {
  const Log log;
  const auto found = run_ranks(1, [](RankContext& context) {
    ::setenv("NCCL_NET", "Ether", 1);
    ncclComm_t comm = nullptr;
    const auto result = ncclCommInitRank(&comm, context.nranks, context.id, context.rank);
    expect(result == ncclInvalidArgument, "ncclCommInitRank returned " + std::to_string(result));
    expect(std::string(ncclGetLastError(nullptr)) == "NCCL_NET=Ether is neither Socket nor IB",
           ncclGetLastError(nullptr));
  });
  INFO(findings(found));
  CHECK(findings(found).empty());
}

}  // namespace
}  // namespace orrery::test
