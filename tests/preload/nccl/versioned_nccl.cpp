// A fake NCCL of the version FAKE_NCCL_VERSION, which exports what that version does and calls its own public functions
// where that version does, through the PLT. It moves nothing: it says what it was called with (on stdout, if
// FAKE_NCCL_TRACE is set), keeps groups per thread, and names communicators as NCCL 2.29 and later do, without which
// ncclCommGrow could not be tried.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/preload/nccl/nccl_api.h"

struct FakeComm {
  int number;
  int rank, nranks;
  uint64_t magic, hash;
  int children;
  bool blocking;
  int polls_until_ready;
  FakeComm** place_of_child;  // of a child that is made when this one is ready again
  FakeComm* child;
};

namespace {

__thread int group_level = 0;
__thread bool group_goes_on = false;  // after its end, in a communicator that does not block
int comms_made = 0;
ncclResult_t answer = ncclSuccess;

void print(uint64_t value) {
  std::printf(" %" PRIu64, value);
}
void print(int64_t value) {
  std::printf(" %" PRId64, value);
}
void print(int value) {
  print(int64_t{value});
}
void print(unsigned value) {
  print(uint64_t{value});
}
void print(FakeComm* comm) {
  comm != nullptr ? std::printf(" comm%d", comm->number) : std::printf(" null");
}
// Only constants are comparable between two runs; addresses of variables are not.
void print(const void* address) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  number < 0x100000 ? std::printf(" 0x%" PRIxPTR, number) : std::printf(" variable");
}

template <typename... Arguments>
void note(const char* function, Arguments... arguments) {
  static const bool traced = std::getenv("FAKE_NCCL_TRACE") != nullptr;
  if (!traced) return;
  std::printf("%s: %s", FAKE_NCCL_NAME, function);
  (print(arguments), ...);
  std::printf(" level %d\n", group_level);
  std::fflush(stdout);
}

bool is_null(FakeComm* comm) {
  return comm == nullptr;
}
template <typename Other>
bool is_null(Other) {
  return false;
}

template <typename... Arguments>
ncclResult_t said(const char* function, Arguments... arguments) {
  note(function, arguments...);
  return (is_null(arguments) || ...) ? ncclInvalidArgument : answer;
}

struct Mixer {
  uint64_t low = 1, high = 1;
  void eat(const void* data, size_t size) {
    low ^= size;
    for (const char* at = static_cast<const char*>(data); size > 0;) {
      const size_t some = size < 8 ? size : 8;
      uint64_t word = 0;
      std::memcpy(&word, at, some);
      low += high;
      high ^= low;
      low = (low ^ low >> 31) * 0x9de62bbc8cef3ce3u;
      high = (high ^ high >> 32) * 0x485cd6311b599e79u;
      low += word;
      at += some;
      size -= some;
    }
  }
  uint64_t digest() const {
    uint64_t result = (low ^ low >> 31) * 0xbac3bd562846de6bu;
    result += high;
    return (result ^ result >> 32) * 0x995a187a14e7b445u;
  }
};

uint64_t combine(uint64_t base, uint64_t value) {
  Mixer mixer;
  mixer.eat(&base, sizeof(base));
  mixer.eat(&value, sizeof(value));
  return mixer.digest();
}

uint64_t magic_of(const ncclUniqueId& id) {
  uint64_t magic;
  std::memcpy(&magic, id.internal, sizeof(magic));
  return magic;
}

FakeComm* new_comm(int rank, int nranks, uint64_t magic, uint64_t hash, bool blocking) {
  return new FakeComm{comms_made++, rank, nranks, magic, hash, 0, blocking, blocking ? 0 : 2, nullptr, nullptr};
}

#if FAKE_NCCL_VERSION >= 21800
FakeComm* new_child(FakeComm* parent, int rank, int nranks, int number, int colour, bool blocking) {
  Mixer mixer;
  mixer.eat(&parent->hash, sizeof(parent->hash));
  mixer.eat(&number, sizeof(number));
  mixer.eat(&colour, sizeof(colour));
  return new_comm(rank, nranks, mixer.digest(), mixer.digest(), blocking);
}

// The child of a communicator that does not block comes when the parent is asked.
ncclResult_t hand_over(FakeComm* parent, ncclComm_t* place, FakeComm* child) {
  *place = nullptr;
  if (parent->blocking) {
    *place = child;
    return ncclSuccess;
  }
  parent->place_of_child = place;
  parent->child = child;
  parent->polls_until_ready = 2;
  group_goes_on = group_level > 0;
  return ncclInProgress;
}
#endif

// Reads what the caller's struct has, as NCCL does, and no more.
#if FAKE_NCCL_VERSION >= 21400
bool read_config(const ncclConfig_t* config) {
  if (config == nullptr) return true;
  uint64_t sum = 0;
  for (size_t i = 0; i < config->size; ++i) sum = sum * 31 + reinterpret_cast<const unsigned char*>(config)[i];
  note("config", uint64_t{config->size}, sum);
  return config->blocking != 0;
}
#endif

ncclResult_t init(ncclComm_t* made, int nranks, const ncclUniqueId& id, int rank, bool blocking) {
  if (made == nullptr || nranks < 1 || rank < 0 || rank >= nranks || id.internal[127] == 0) return ncclInvalidArgument;
  if (answer != ncclSuccess) return answer;
  Mixer mixer;
  mixer.eat(id.internal, sizeof(id.internal));
#if FAKE_NCCL_VERSION >= 22700
  int version;
  ncclGetVersion(&version);
#endif
  *made = new_comm(rank, nranks, magic_of(id), mixer.digest(), blocking);
  return blocking ? ncclSuccess : ncclInProgress;
}

}  // namespace

#define FAKE_API extern "C" __attribute__((visibility("default"), weak))

FAKE_API int fake_nccl_group_level() {
  return group_level;
}
FAKE_API void fake_nccl_answer_with(ncclResult_t result) {
  answer = result;
}

#define PLAIN(name, parameters, names, arguments) \
  FAKE_API ncclResult_t name parameters {         \
    return said(#name, FAKE_LIST names);          \
  }
#define SPECIAL(result, name, parameters, arguments)
#define FAKE_LIST(...) __VA_ARGS__
#include "tests/preload/nccl/nccl_api.inc"

FAKE_API ncclResult_t ncclGetVersion(int* version) {
  note("ncclGetVersion");
  *version =
      FAKE_NCCL_VERSION >= 20900 ? FAKE_NCCL_VERSION : FAKE_NCCL_VERSION / 10000 * 1000 + FAKE_NCCL_VERSION % 10000;
  return answer;
}
FAKE_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  note("ncclGetUniqueId");
  for (size_t i = 0; i < sizeof(id->internal); ++i) id->internal[i] = static_cast<char>(i * 7 + 1);
  return answer;
}
FAKE_API ncclResult_t ncclGroupStart() {
  note("ncclGroupStart");
  if (answer == ncclSuccess) ++group_level;
  return answer;
}
FAKE_API ncclResult_t ncclGroupEnd() {
  note("ncclGroupEnd");
  if (group_level == 0) return ncclInvalidUsage;
  --group_level;
  if (group_level > 0 || !group_goes_on || answer != ncclSuccess) return answer;
  group_goes_on = false;
  return ncclInProgress;
}
FAKE_API ncclResult_t ncclCommInitRank(ncclComm_t* made, int nranks, ncclUniqueId id, int rank) {
  note("ncclCommInitRank", nranks, id.internal[0] + 0, id.internal[127] + 0, rank);
  return init(made, nranks, id, rank, true);
}
FAKE_API ncclResult_t ncclCommInitAll(ncclComm_t* made, int devices, const int* list) {
  note("ncclCommInitAll", devices, static_cast<const void*>(list));
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return result;
  if (FAKE_NCCL_VERSION < 22700) ncclGroupStart();
  for (int i = 0; i < devices; ++i) ncclCommInitRank(&made[i], devices, id, i);
  return FAKE_NCCL_VERSION < 22700 ? ncclGroupEnd() : ncclSuccess;
}
FAKE_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const ncclResult_t result = said("ncclCommDestroy", comm);
#if FAKE_NCCL_VERSION >= 22900
  ncclMemFree(nullptr);
#endif
  if (result == ncclSuccess) delete comm;
  return result;
}
FAKE_API const char* ncclGetErrorString(ncclResult_t result) {
  note("ncclGetErrorString", static_cast<int>(result));
  return "fake error of " FAKE_NCCL_NAME;
}
FAKE_API ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  const ncclResult_t result = said("ncclCommCount", comm);
  if (result != ncclSuccess) return result;
  if (comm->polls_until_ready > 0) return ncclInvalidArgument;
  *count = comm->nranks;
  return ncclSuccess;
}
FAKE_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = 6;
  return said("ncclCommCuDevice", comm);
}
FAKE_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  const ncclResult_t result = said("ncclCommUserRank", comm);
  if (result == ncclSuccess) *rank = comm->rank;
  return result;
}
FAKE_API ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream) {
  note("ncclBcast", buffer, count, type, root, comm, stream);
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

#if FAKE_NCCL_VERSION >= 20700
FAKE_API ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream) {
  if (FAKE_NCCL_VERSION < 22200) ncclGroupStart();
  const ncclResult_t result = said("ncclSend", send, count, type, peer, comm, stream);
  if (FAKE_NCCL_VERSION < 22200) ncclGroupEnd();
  return result;
}
FAKE_API ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream) {
  if (FAKE_NCCL_VERSION < 22200) ncclGroupStart();
  const ncclResult_t result = said("ncclRecv", receive, count, type, peer, comm, stream);
  if (FAKE_NCCL_VERSION < 22200) ncclGroupEnd();
  return result;
}
FAKE_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t result = said("ncclCommAbort", comm);
  if (result == ncclSuccess) delete comm;
  return result;
}
FAKE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const ncclResult_t result = said("ncclCommGetAsyncError", comm);
  if (result != ncclSuccess) return result;
  *error = ncclSuccess;
  if (comm->polls_until_ready > 0 && --comm->polls_until_ready > 0) *error = ncclInProgress;
  if (*error == ncclSuccess && comm->place_of_child != nullptr) {
    *comm->place_of_child = comm->child;
    comm->place_of_child = nullptr;
  }
  return ncclSuccess;
}
#endif

#if FAKE_NCCL_VERSION >= 21200
FAKE_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                               ncclScalarResidence_t residence, ncclComm_t comm) {
  *op = ncclRedOp_t(5);
  return said("ncclRedOpCreatePreMulSum", scalar, type, residence, comm);
}
#endif

#if FAKE_NCCL_VERSION >= 21400
FAKE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int nranks, ncclUniqueId id, int rank,
                                             ncclConfig_t* config) {
  note("ncclCommInitRankConfig", nranks, rank);
  return init(made, nranks, id, rank, read_config(config));
}
FAKE_API const char* ncclGetLastError(ncclComm_t comm) {
  note("ncclGetLastError", comm);
  return "last error of " FAKE_NCCL_NAME;
}
#endif

#if FAKE_NCCL_VERSION >= 21800
FAKE_API ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* made, ncclConfig_t* config) {
  const ncclResult_t result = said("ncclCommSplit", comm, colour, key);
  if (result != ncclSuccess) return result;
  const int number = ++comm->children;
  if (colour == -1) {
    *made = nullptr;
    return ncclSuccess;
  }
  const bool blocking = config != nullptr ? read_config(config) : comm->blocking;
  return hand_over(comm, made, new_child(comm, comm->rank / 2, comm->nranks / 2, number, colour, blocking));
}
#endif

#if FAKE_NCCL_VERSION >= 21900
FAKE_API ncclResult_t ncclMemAlloc(void** memory, size_t size) {
  *memory = reinterpret_cast<void*>(0x2200);
  return said("ncclMemAlloc", size);
}
#endif

#if FAKE_NCCL_VERSION >= 22200
FAKE_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  note("ncclGroupSimulateEnd", static_cast<const void*>(info));
  if (group_level == 0) return ncclInvalidUsage;
  --group_level;
  return answer;
}
#endif

#if FAKE_NCCL_VERSION >= 22300
FAKE_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* made, int nranks, int rank, int id_count, ncclUniqueId* ids,
                                               ncclConfig_t* config) {
  note("ncclCommInitRankScalable", nranks, rank, id_count, ids[id_count - 1].internal[5] + 0);
  return init(made, nranks, ids[0], rank, read_config(config));
}
#endif

#if FAKE_NCCL_VERSION >= 22400
FAKE_API void ncclResetDebugInit() {
  note("ncclResetDebugInit");
}
#endif

#if FAKE_NCCL_VERSION >= 22700
FAKE_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config,
                                     int flags) {
  const ncclResult_t result = said("ncclCommShrink", comm, excluded[count - 1], count, flags);
  if (result != ncclSuccess) return result;
  const bool blocking = config != nullptr ? read_config(config) : comm->blocking;
  int rank = comm->rank;
  for (int i = 0; i < count; ++i) rank -= excluded[i] < comm->rank;
  return hand_over(comm, made, new_child(comm, rank, comm->nranks - count, 0, 0, blocking));
}
#endif

#if FAKE_NCCL_VERSION >= 22902
FAKE_API ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  const ncclResult_t result = said("ncclCommGetUniqueId", comm);
  if (result != ncclSuccess) return result;
  std::memset(id, 1, sizeof(*id));
  const uint64_t magic = combine(comm->magic, static_cast<uint64_t>(comm->children) + 1);
  std::memcpy(id->internal, &magic, sizeof(magic));
  return ncclSuccess;
}
FAKE_API ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* made,
                                   ncclConfig_t* config) {
  note("ncclCommGrow", comm, nranks, id != nullptr, rank);
  *made = nullptr;
  if (answer != ncclSuccess) return answer;
  if (comm == nullptr && (id == nullptr || rank < 0 || rank >= nranks)) return ncclInvalidArgument;
  if (comm != nullptr && rank != -1) return ncclInvalidArgument;
  const bool blocking = config != nullptr ? read_config(config) : comm == nullptr || comm->blocking;
  const uint64_t magic =
      comm == nullptr ? magic_of(*id) : combine(comm->magic, static_cast<uint64_t>(++comm->children));
  *made = new_comm(comm != nullptr ? comm->rank : rank, nranks, magic, combine(magic, static_cast<uint64_t>(nranks)),
                   blocking);
  return blocking ? ncclSuccess : ncclInProgress;
}
#endif
