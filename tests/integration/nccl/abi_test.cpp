// The binary interface: names, sizes, and the calls that NCCL makes to itself through public names.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tools/lab/hostnccl/include/nccl.h"

static_assert(sizeof(ncclUniqueId) == 128);
static_assert(sizeof(ncclConfig_t) == 48);
static_assert(offsetof(ncclConfig_t, size) == 0 && offsetof(ncclConfig_t, magic) == 8 &&
              offsetof(ncclConfig_t, version) == 12);
static_assert(offsetof(ncclConfig_t, blocking) == 16 && offsetof(ncclConfig_t, cgaClusterSize) == 20);
static_assert(offsetof(ncclConfig_t, minCTAs) == 24 && offsetof(ncclConfig_t, maxCTAs) == 28);
static_assert(offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, splitShare) == 40);
static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclDataType_t) == 4 && sizeof(ncclRedOp_t) == 4);
static_assert(ncclInProgress == 7 && ncclRemoteError == 6 && ncclInvalidUsage == 5);
static_assert(ncclFloat16 == 6 && ncclFloat32 == 7 && ncclFloat64 == 8 && ncclBfloat16 == 9 && ncclAvg == 4);

namespace {

int g_group_starts = 0;
int g_group_ends = 0;
int g_broadcasts = 0;
int g_unique_ids = 0;

}  // namespace

// This program's definitions come before the library's, as a preloaded interposer's do.
extern "C" ncclResult_t ncclGroupStart() {
  ++g_group_starts;
  return pncclGroupStart();
}
extern "C" ncclResult_t ncclGroupEnd() {
  ++g_group_ends;
  return pncclGroupEnd();
}
extern "C" ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  ++g_unique_ids;
  return pncclGetUniqueId(id);
}
extern "C" ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, cudaStream_t stream) {
  ++g_broadcasts;
  return pncclBroadcast(send, recv, count, type, root, comm, stream);
}

namespace {

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 4096> buffer;
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), got);
  REQUIRE(::pclose(pipe) == 0);
  return text;
}

TEST_CASE("the library exports exactly the names and kinds in the golden file") {
  std::istringstream symbols(output_of("nm -D --defined-only " ORRERY_LIBNCCL));
  std::vector<std::string> names;
  std::string address, kind, name;
  while (symbols >> address >> kind >> name) names.push_back(kind + " " + name);
  std::sort(names.begin(), names.end());
  std::ifstream golden(ORRERY_EXPORTS_GOLDEN);
  std::vector<std::string> expected;
  for (std::string line; std::getline(golden, line);) expected.push_back(line);
  REQUIRE(names == expected);
}

TEST_CASE("the library needs nothing that a training container lacks") {
  std::istringstream dynamic(output_of("readelf -dW " ORRERY_LIBNCCL));
  for (std::string line; std::getline(dynamic, line);) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    const bool common = line.find("libstdc++.so") != std::string::npos || line.find("libm.so") != std::string::npos ||
                        line.find("libgcc_s.so") != std::string::npos || line.find("libc.so") != std::string::npos ||
                        line.find("ld-linux") != std::string::npos || line.find("san.so") != std::string::npos;
    INFO(line);
    REQUIRE(common);
  }
}

TEST_CASE("the version is that of the interface") {
  int version = 0;
  REQUIRE(ncclGetVersion(&version) == ncclSuccess);
  REQUIRE(version == 21806);
  REQUIRE(std::string(ncclGetErrorString(ncclInProgress)).find("progress") != std::string::npos);
}

TEST_CASE("calls that NCCL makes to itself through public names can be seen by an interposer") {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  REQUIRE(g_unique_ids == 1);
  REQUIRE(g_group_starts == 1);
  REQUIRE(g_group_ends == 1);

  int value = 1;
  REQUIRE(ncclBcast(&value, 1, ncclInt32, 0, comm, nullptr) == ncclSuccess);
  REQUIRE(g_broadcasts == 1);

  int received = 0;
  REQUIRE(pncclGroupStart() == ncclSuccess);
  REQUIRE(ncclSend(&value, 1, ncclInt32, 0, comm, nullptr) == ncclSuccess);
  REQUIRE(ncclRecv(&received, 1, ncclInt32, 0, comm, nullptr) == ncclSuccess);
  REQUIRE(pncclGroupEnd() == ncclSuccess);
  REQUIRE(g_group_starts == 3);
  REQUIRE(g_group_ends == 3);

  // and no others:
  REQUIRE(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr) == ncclSuccess);
  REQUIRE(hostncclStreamSynchronize(nullptr) == ncclSuccess);
  REQUIRE(g_group_starts == 3);
  REQUIRE(received == 1);
  REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
}

}  // namespace
