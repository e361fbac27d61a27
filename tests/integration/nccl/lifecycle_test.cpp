// Communicators: how they begin, split, end and fail.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/integration/nccl/ranks.h"

namespace orrery::test {
namespace {

ncclComm_t init(const RankContext& context) {
  ncclComm_t comm = nullptr;
  expect_success(ncclCommInitRank(&comm, context.nranks, context.id, context.rank), "ncclCommInitRank");
  return comm;
}

int32_t sum_of(ncclComm_t comm, int32_t value) {
  expect_success(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), "AllReduce");
  expect_success(hostncclStreamSynchronize(nullptr), "completion");
  return value;
}

void require_nothing_found(int nranks, const std::function<void(RankContext&)>& body) {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const auto found = run_ranks(nranks, body);
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

TEST_CASE("a communicator knows its rank, size and device") {
  require_nothing_found(3, [](RankContext& context) {
    ncclComm_t comm = init(context);
    int rank = -1, count = -1, device = -1;
    expect_success(ncclCommUserRank(comm, &rank), "UserRank");
    expect_success(ncclCommCount(comm, &count), "Count");
    expect_success(ncclCommCuDevice(comm, &device), "CuDevice");
    expect(rank == context.rank && count == 3 && device == 0, "wrong identity");
    expect_success(ncclCommDestroy(comm), "Destroy");
  });
}

TEST_CASE("a split makes one communicator per colour, ordered by key, and none without a colour") {
  require_nothing_found(6, [](RankContext& context) {
    ncclComm_t comm = init(context);
    for (int round = 0; round < 2; ++round) {
      const int color = context.rank == 5 ? NCCL_SPLIT_NOCOLOR : context.rank % 2;
      ncclComm_t child = nullptr;
      expect_success(ncclCommSplit(comm, color, -context.rank, &child, nullptr), "Split");
      if (color == NCCL_SPLIT_NOCOLOR) {
        expect(child == nullptr, "a rank without a colour got a communicator");
        continue;
      }
      int rank = -1, count = -1;
      expect_success(ncclCommUserRank(child, &rank), "UserRank");
      expect_success(ncclCommCount(child, &count), "Count");
      const int members = color == 0 ? 3 : 2;  // 0 2 4 and 1 3
      expect(count == members && rank == members - 1 - context.rank / 2, "wrong place in the child");
      expect(sum_of(child, context.rank) == (color == 0 ? 6 : 4), "wrong sum in the child");
      expect_success(ncclCommDestroy(child), "Destroy child");
    }
    expect(sum_of(comm, 1) == 6, "the parent does not work after splits");
    expect_success(ncclCommDestroy(comm), "Destroy");
  });
}

// In a child like all others: the test program itself stays single-threaded and may fork.
TEST_CASE("one process can hold all ranks") {
  require_nothing_found(1, [](RankContext&) {
    ncclComm_t comms[3] = {};
    const int devices[3] = {4, 5, 6};
    expect_success(ncclCommInitAll(comms, 3, devices), "CommInitAll");
    int32_t values[3] = {1, 2, 3};
    expect_success(ncclGroupStart(), "GroupStart");
    for (int i = 0; i < 3; ++i) {
      expect_success(ncclAllReduce(&values[i], &values[i], 1, ncclInt32, ncclSum, comms[i], nullptr), "AllReduce");
    }
    expect_success(ncclGroupEnd(), "GroupEnd");
    expect_success(hostncclStreamSynchronize(nullptr), "completion");
    for (int i = 0; i < 3; ++i) {
      int device = -1;
      expect(values[i] == 6, "wrong sum");
      expect_success(ncclCommCuDevice(comms[i], &device), "CuDevice");
      expect(device == devices[i], "wrong device");
      expect_success(ncclCommDestroy(comms[i]), "Destroy");
    }
  });
}

TEST_CASE("operations of several communicators on one stream run in the order of the calls") {
  require_nothing_found(1, [](RankContext&) {
    ncclComm_t first = nullptr, second = nullptr;
    expect_success(ncclCommInitAll(&first, 1, nullptr), "first");
    expect_success(ncclCommInitAll(&second, 1, nullptr), "second");
    const auto stream = reinterpret_cast<cudaStream_t>(0x10);
    std::vector<char> a(8 << 20, 1), b(8 << 20), c(8 << 20);
    for (int round = 0; round < 10; ++round) {
      std::fill(a.begin(), a.end(), static_cast<char>(round));
      expect_success(ncclAllGather(a.data(), b.data(), a.size(), ncclInt8, first, stream), "first AllGather");
      expect_success(ncclAllGather(b.data(), c.data(), b.size(), ncclInt8, second, stream), "second AllGather");
      expect_success(hostncclStreamSynchronize(stream), "completion");
      expect(c == a, "the second operation did not wait for the first");
    }
    expect_success(ncclCommDestroy(first), "Destroy");
    expect_success(ncclCommDestroy(second), "Destroy");
  });
}

TEST_CASE("a non-blocking communicator is in progress until it is ready") {
  require_nothing_found(2, [](RankContext& context) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    const auto started = ncclCommInitRankConfig(&comm, 2, context.id, context.rank, &config);
    expect(started == ncclInProgress && comm, "the call did not return at once");
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      expect_success(ncclCommGetAsyncError(comm, &state), "GetAsyncError");
      ::usleep(1000);
    }
    expect_success(state, "set-up");
    expect(sum_of(comm, 2) == 4, "wrong sum");
    expect_success(ncclCommFinalize(comm), "Finalize");
    int32_t value = 0;
    expect(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr) == ncclInvalidUsage,
           "used after finalize");
    expect_success(ncclCommDestroy(comm), "Destroy");
  });
}

TEST_CASE("wrong arguments are refused with a reason and change nothing") {
  require_nothing_found(1, [](RankContext& context) {
    ncclComm_t comm = init(context);
    float value = 1;
    ncclComm_t other = nullptr;
    ncclUniqueId garbage{};
    expect(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr) == ncclInvalidArgument,
           "NULL communicator");
    expect(ncclAllReduce(nullptr, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclInvalidArgument,
           "NULL buffer");
    expect(ncclAllReduce(&value, &value, 1, static_cast<ncclDataType_t>(10), ncclSum, comm, nullptr) ==
               ncclInvalidArgument,
           "type 10");
    expect(ncclAllReduce(&value, &value, 1, ncclFloat32, static_cast<ncclRedOp_t>(9), comm, nullptr) ==
               ncclInvalidArgument,
           "operation 9");
    expect(ncclReduce(&value, &value, 1, ncclFloat32, ncclSum, 1, comm, nullptr) == ncclInvalidArgument, "root 1 of 1");
    expect(ncclCommInitRank(&other, 2, context.id, 2) == ncclInvalidArgument && !other, "rank 2 of 2");
    expect(ncclCommInitRank(&other, 2, garbage, 0) == ncclInvalidArgument && !other, "an id of zeros");
    ncclConfig_t config{};
    expect(ncclCommInitRankConfig(&other, 1, context.id, 0, &config) == ncclInvalidArgument, "an uninitialised config");
    ncclRedOp_t op;
    expect_success(ncclRedOpCreatePreMulSum(&op, &value, ncclFloat32, ncclScalarHostImmediate, comm), "PreMulSum");
    double wide = 1;
    expect(ncclAllReduce(&wide, &wide, 1, ncclFloat64, op, comm, nullptr) == ncclInvalidArgument,
           "a reduction of another type");
    expect_success(ncclRedOpDestroy(op, comm), "RedOpDestroy");
    expect(ncclRedOpDestroy(op, comm) == ncclInvalidArgument, "destroyed twice");
    expect(ncclRedOpDestroy(ncclSum, comm) == ncclInvalidArgument, "a built-in reduction was destroyed");
    expect(*ncclGetLastError(nullptr) != '\0', "no reason");
    expect(sum_of(comm, 3) == 3, "the communicator no longer works");
    expect_success(ncclCommDestroy(comm), "Destroy");
  });
}

TEST_CASE("ranks that never come are named when the others give up") {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  std::vector<std::string> found;
  // As much time as those that come need here to be in time.
  for (int seconds = 1; seconds == 1 || (seconds < 32 && !findings(found).empty()); seconds *= 2) {
    const std::string patience = std::to_string(seconds);
    ::setenv("HOSTNCCL_JOIN_TIMEOUT_S", patience.c_str(), 1);
    found = run_ranks(2, [&patience](RankContext& context) {
      ncclComm_t comm = nullptr;
      const int rank = context.rank == 0 ? 0 : 2;
      expect(ncclCommInitRank(&comm, 4, context.id, rank) == ncclInvalidUsage, "joined without all ranks");
      expect(std::string(ncclGetLastError(nullptr)).find(patience + " s: 1, 3") != std::string::npos,
             std::string("unclear: ") + ncclGetLastError(nullptr));
    });
  }
  ::unsetenv("HOSTNCCL_JOIN_TIMEOUT_S");
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

// Runs all-reduces until one fails; the text of the failure.
std::string run_until_failure(ncclComm_t comm) {
  std::vector<float> data(1 << 20, 1);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  while (std::chrono::steady_clock::now() < give_up) {
    ncclResult_t result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclMax, comm, nullptr);
    if (result == ncclSuccess) result = hostncclStreamSynchronize(nullptr);
    if (result != ncclSuccess) {
      expect(result == ncclRemoteError, "the failure is " + std::to_string(result));
      return ncclGetLastError(comm);
    }
  }
  return {};
}

TEST_CASE("when a rank is killed, all others get an error that names a rank and its address") {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const int victim = GENERATE(0, 2);
  const auto found = run_ranks(4, [victim](RankContext& context) {
    ncclComm_t comm = init(context);
    (void)sum_of(comm, 1);
    if (context.rank == victim) {
      std::thread([] {
        ::usleep(100'000);
        ::kill(::getpid(), SIGKILL);
      }).detach();
    }
    const std::string text = run_until_failure(comm);
    expect(!text.empty(), "no failure was noticed");
    expect(text.find("rank ") != std::string::npos && text.find("127.0.0.1:") != std::string::npos, "unclear: " + text);
    ncclResult_t error = ncclSuccess;
    expect_success(ncclCommGetAsyncError(comm, &error), "GetAsyncError");
    expect(error == ncclRemoteError, "the asynchronous error is " + std::to_string(error));
    expect_success(ncclCommAbort(comm), "Abort");
  });
  for (size_t rank = 0; rank < found.size(); ++rank) {
    INFO("rank " << rank);
    REQUIRE(found[rank] == (static_cast<int>(rank) == victim ? "killed by signal 9" : ""));
  }
}

TEST_CASE("abort ends an operation that waits for another rank, on this rank and on the others") {
  require_nothing_found(3, [](RankContext& context) {
    ncclComm_t comm = init(context);
    (void)sum_of(comm, 1);
    float value = 1;
    if (context.rank != 2) {  // rank 2 never calls: the others wait
      expect_success(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), "AllReduce");
    }
    if (context.rank == 0) {
      ::usleep(100'000);
      expect_success(ncclCommAbort(comm), "Abort");
      expect(hostncclStreamSynchronize(nullptr) != ncclSuccess, "an aborted operation completed");
      return;
    }
    if (context.rank == 1) expect(hostncclStreamSynchronize(nullptr) == ncclRemoteError, "the others were not told");
    if (context.rank == 2) ::sleep(4);
    expect_success(ncclCommAbort(comm), "Abort");
  });
}

TEST_CASE("a rank that leaves in good order right after its last operation disturbs nobody") {
  require_nothing_found(4, [](RankContext& context) {
    for (int round = 0; round < 5; ++round) {
      ncclComm_t comm = nullptr;
      expect_success(ncclCommInitRank(&comm, 1, context.id, 0) == ncclSuccess ? ncclSuccess : ncclInternalError,
                     "single");
      expect_success(ncclCommDestroy(comm), "Destroy single");
    }
    ncclComm_t comm = init(context);
    std::vector<char> data(1 << 20, static_cast<char>(context.rank));
    expect_success(ncclBroadcast(data.data(), data.data(), data.size(), ncclInt8, 0, comm, nullptr), "Broadcast");
    expect_success(ncclCommDestroy(comm), "Destroy");
    expect(data.back() == 0, "wrong data");
  });
}

}  // namespace
}  // namespace orrery::test
