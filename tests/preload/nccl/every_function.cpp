// Calls every function of the NCCL it is linked with (FAKE_NCCL_VERSION), and prints what came back: `every_function`;
// with the answer that the fake is to give: `every_function RESULT`.
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "tests/preload/nccl/nccl_api.h"

namespace {

void* P(uintptr_t number) {
  return reinterpret_cast<void*>(number << 8);
}
cudaStream_t stream_at(uintptr_t number) {
  return static_cast<cudaStream_t>(P(number));
}
[[maybe_unused]] ncclWindow_t window_at(uintptr_t number) {
  return static_cast<ncclWindow_t>(P(number));
}
[[maybe_unused]] const size_t* sizes_at(uintptr_t number) {
  return static_cast<const size_t*>(P(number));
}

ncclUniqueId some_id() {
  ncclUniqueId id;
  for (size_t i = 0; i < sizeof(id.internal); ++i) id.internal[i] = static_cast<char>(i + 1);
  return id;
}

ncclComm_t make_comm() {
  ncclComm_t made = nullptr;
  fake_nccl_answer_with(ncclSuccess);
  ncclCommInitRank(&made, 8, some_id(), 2);
  return made;
}

void print_result(ncclResult_t result) {
  std::printf("  = %d", result);
}
void print_result(const char* result) {
  std::printf("  = %s", result);
}

}  // namespace

int main(int argc, char** argv) {
  const auto answer = static_cast<ncclResult_t>(argc > 1 ? std::atoi(argv[1]) : 0);
  const ncclComm_t comm = make_comm();
  ncclComm_t out_comm = nullptr, out_comms[3] = {};
  int out_number_storage = 0;
  [[maybe_unused]] ncclRedOp_t out_op = ncclSum;
  [[maybe_unused]] ncclUniqueId two_ids[2] = {some_id(), some_id()}, out_id = some_id();
  [[maybe_unused]] int excluded[2] = {6, 7};
  [[maybe_unused]] const size_t counts[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  [[maybe_unused]] void* out_pointer = nullptr;
  [[maybe_unused]] ncclWindow_t out_window = nullptr;
  [[maybe_unused]] uint64_t out_wide = 0;
  [[maybe_unused]] ncclWaitSignalDesc_t signals[1] = {};
  const auto print_out = [&] {
    std::printf(" comm %d %d number %d op %d id %d pointer %p\n", out_comm != nullptr, out_comms[2] != nullptr,
                out_number_storage, out_op, out_id.internal[0], out_pointer);
    out_comm = out_comms[2] = nullptr;
  };
  const auto call = [&](auto function, auto&&... arguments) {
    fake_nccl_answer_with(answer);
    if constexpr (std::is_void_v<decltype(function(arguments...))>)
      function(arguments...);
    else
      print_result(function(arguments...));
    print_out();
  };
  // Some functions return a plain int by an ncclResult_t*.
  struct OutNumber {
    int* at;
    operator int*() const { return at; }
    operator ncclResult_t*() const { return reinterpret_cast<ncclResult_t*>(at); }
  };
  struct {
    int* at;
    OutNumber operator&() const { return {at}; }
  } out_number{&out_number_storage};

#define CALL_LIST(...) __VA_OPT__(, ) __VA_ARGS__
#define PLAIN(name, parameters, names, arguments) call(name CALL_LIST arguments);
#define SPECIAL(result, name, parameters, arguments) call(name CALL_LIST arguments);
#include "tests/preload/nccl/nccl_api.inc"
  std::printf("level %d\n", fake_nccl_group_level());
}
