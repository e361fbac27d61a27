// A profiler plug-in of a user's: writes down every call it gets, with handles and contexts by number, into the file
// FAKE_PROFILER_LOG. Asks for FAKE_PROFILER_MASK. Built for one version of the interface or for all
// (FAKE_PROFILER_VERSION, 0: all). With FAKE_PROFILER_REFUSES its init fails.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "agent/preload/profiler_abi.h"

namespace {

using namespace orrery::preload::profiler;

// With FAKE_PROFILER_SLOW it takes its time to load.
__attribute__((constructor)) void load_slowly() {
  if (std::getenv("FAKE_PROFILER_SLOW") != nullptr) usleep(200'000);
}

std::mutex mutex;
std::map<void*, int> numbers;  // of handles and contexts, in the order of their making
int made = 0;

// Fresh memory, so that no number is given twice; a plug-in may use what it likes.
void* make_number() {
  void* fresh = std::malloc(16);
  numbers[fresh] = ++made;
  return fresh;
}

std::string name_of(void* pointer) {
  if (pointer == nullptr) return "none";
  const auto known = numbers.find(pointer);
  return known != numbers.end() ? "#" + std::to_string(known->second) : "UNKNOWN";
}

template <typename... Arguments>
void log(const char* format, Arguments... arguments) {
  static FILE* file = std::fopen(std::getenv("FAKE_PROFILER_LOG"), "a");
  std::fprintf(file, format, arguments...);
  std::fputc('\n', file);
  std::fflush(file);
}

int start_of_mask() {
  const char* mask = std::getenv("FAKE_PROFILER_MASK");
  return mask != nullptr ? std::atoi(mask) : 0;
}

int common_init(void** context, int* mask, unsigned long hash, const char* name, int nodes, int nranks, int rank) {
  std::lock_guard lock(mutex);
  *mask = start_of_mask();
  if (std::getenv("FAKE_PROFILER_REFUSES") != nullptr) return 1;
  *context = make_number();
  log("init %s %lx %s %d %d %d", name_of(*context).c_str(), hash, name, nodes, nranks, rank);
  return 0;
}

std::string word(const char* text) {
  return text != nullptr ? text : "null";
}
std::string word(uint8_t number) {
  return "n" + std::to_string(number);
}

template <typename Descriptor>
std::string details_of(const Descriptor& descriptor) {
  switch (descriptor.type) {
    case kColl: {
      std::string text = word(descriptor.coll.func) + " " + std::to_string(descriptor.coll.count) + " " +
                         word(descriptor.coll.datatype) + " " + std::to_string(descriptor.coll.root) + " " +
                         std::to_string(descriptor.coll.sequence);
      if constexpr (requires { descriptor.coll.parent_group; }) text += " " + name_of(descriptor.coll.parent_group);
      return text;
    }
    case kP2p: {
      std::string text = word(descriptor.p2p.func) + " " + std::to_string(descriptor.p2p.count) + " " +
                         word(descriptor.p2p.datatype) + " " + std::to_string(descriptor.p2p.peer);
      if constexpr (requires { descriptor.p2p.parent_group; }) text += " " + name_of(descriptor.p2p.parent_group);
      return text;
    }
    case kProxyOp:
      return std::to_string(descriptor.proxy_op.peer) + " " + std::to_string(descriptor.proxy_op.chunk_bytes) + " " +
             std::to_string(descriptor.proxy_op.is_send);
    case kProxyStep:
      return std::to_string(descriptor.proxy_step.step);
  }
  if constexpr (requires { descriptor.coll_api; }) {
    if (descriptor.type == kCollApi)
      return word(descriptor.coll_api.func) + (descriptor.coll_api.graph_captured ? " captured" : "");
    if (descriptor.type == kP2pApi)
      return word(descriptor.p2p_api.func) + (descriptor.p2p_api.graph_captured ? " captured" : "");
    if (descriptor.type == kGroupApi) return descriptor.group_api.graph_captured ? "captured" : "";
  }
  return "";
}

template <int kVersion>
int start_event(void* context, void** event, typename Types<kVersion>::Descriptor* descriptor) {
  std::lock_guard lock(mutex);
  *event = make_number();
  log("start %s context %s type %lu parent %s: %s", name_of(*event).c_str(), name_of(context).c_str(),
      static_cast<unsigned long>(descriptor->type), name_of(descriptor->parent).c_str(),
      details_of(*descriptor).c_str());
  return 0;
}
int stop_event(void* event) {
  std::lock_guard lock(mutex);
  log("stop %s", name_of(event).c_str());
  return 0;
}
template <int kVersion>
int record_event_state(void* event, int state, typename Types<kVersion>::StateArguments* arguments) {
  std::lock_guard lock(mutex);
  unsigned long value = 0;
  if constexpr (kVersion >= 4)
    if (state == kStepSendWait && arguments != nullptr) value = arguments->proxy_step.bytes;
  if (state == kCtrlLast && arguments != nullptr) value = static_cast<unsigned long>(arguments->proxy_ctrl.appended);
  log("state %s %d %lu", name_of(event).c_str(), state, value);
  return 0;
}
int finalize(void* context) {
  std::lock_guard lock(mutex);
  log("finalize %s", name_of(context).c_str());
  return 0;
}

int init_1(void** context, int* mask) {
  return common_init(context, mask, 0, "", 0, 0, 0);
}
int init_4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int nranks, int rank, Logger) {
  return common_init(context, mask, hash, name, nodes, nranks, rank);
}
int init_5(void** context, uint64_t hash, int* mask, const char* name, int nodes, int nranks, int rank, Logger) {
  return common_init(context, mask, hash, name, nodes, nranks, rank);
}

}  // namespace

#define FAKE_TABLE(version, init)                                                           \
  extern "C" __attribute__((visibility("default"))) Table<version> ncclProfiler_v##version; \
  Table<version> ncclProfiler_v##version = {                                                \
      "fake", init, start_event<version>, stop_event, record_event_state<version>, finalize};
#if FAKE_PROFILER_VERSION == 0 || FAKE_PROFILER_VERSION == 1
FAKE_TABLE(1, init_1)
#endif
#if FAKE_PROFILER_VERSION == 0
FAKE_TABLE(2, init_1)
FAKE_TABLE(3, init_1)
#endif
#if FAKE_PROFILER_VERSION == 0 || FAKE_PROFILER_VERSION == 4
FAKE_TABLE(4, init_4)
#endif
#if FAKE_PROFILER_VERSION == 0
FAKE_TABLE(5, init_5)
FAKE_TABLE(6, init_5)
#endif
