// Uses two copies of NCCL in turns, group within group: `two_copies HOW:PATH HOW:PATH...` (each with the next), where
// HOW is
//   local, global: PATH is a library with framework(), opened RTLD_LOCAL or RTLD_GLOBAL
//   dlsym: PATH is an NCCL, whose functions are looked up
// With PROBE_WAITS_FOR_AGENT it says "ready" and
// waits for a line first.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/preload/nccl/framework.h"

namespace {

void* open(const std::string& path, int flags) {
  void* library = dlopen(path.c_str(), RTLD_NOW | flags);
  if (library == nullptr) {
    std::fprintf(stderr, "two_copies: %s\n", dlerror());
    std::exit(2);
  }
  return library;
}

Framework from_symbols(void* library) {
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  Framework found;
  find(found.get_version, "ncclGetVersion");
  find(found.init, "ncclCommInitRank");
  find(found.start, "ncclGroupStart");
  find(found.end, "ncclGroupEnd");
  find(found.end_by_jump, "ncclGroupEnd");
  find(found.send, "ncclSend");
  find(found.all_reduce, "ncclAllReduce");
  find(found.broadcast, "ncclBcast");
  find(found.destroy, "ncclCommDestroy");
  return found;
}

Framework load(const std::string& argument) {
  const size_t colon = argument.find(':');
  const std::string how = argument.substr(0, colon), path = argument.substr(colon + 1);
  if (how == "dlsym") return from_symbols(open(path, RTLD_LOCAL));
  void* library = open(path, how == "global" ? RTLD_GLOBAL : RTLD_LOCAL);
  return *reinterpret_cast<decltype(&framework)>(dlsym(library, "framework"))();
}

ncclUniqueId id_of(char first) {
  ncclUniqueId id;
  std::memset(&id, 1, sizeof(id));
  id.internal[0] = first;
  return id;
}

void wait_for_agent(const Framework& any) {
  any.init(nullptr, 0, id_of(0), 0);
  std::printf("ready\n");
  std::fflush(stdout);
  char line;
  if (read(STDIN_FILENO, &line, 1) == 1) any.init(nullptr, 0, id_of(0), 0);
}

void use(const Framework& a, const Framework& b) {
  int version_a = 0, version_b = 0;
  std::printf("versions %d %d", a.get_version(&version_a), b.get_version(&version_b));
  std::printf(" %d %d\n", version_a, version_b);
  ncclComm_t comm_a = nullptr, comm_b = nullptr;
  std::printf("init %d %d\n", a.init(&comm_a, 4, id_of('a'), 1), b.init(&comm_b, 2, id_of('b'), 0));
  std::printf("start %d %d\n", a.start(), b.start());
  std::printf("send %d %d\n", a.send(nullptr, 1, ncclFloat, 1, comm_a, nullptr),
              b.send(nullptr, 2, ncclFloat, 1, comm_b, nullptr));
  std::printf("end %d\n", a.end());
  std::printf("all_reduce %d\n", b.all_reduce(nullptr, nullptr, 3, ncclFloat, ncclSum, comm_b, nullptr));
  std::printf("end %d\n", b.end_by_jump());
  for (int i = 0; i < 2; ++i) {
    std::printf("alone %d\n", a.all_reduce(nullptr, nullptr, 4, ncclFloat, ncclSum, comm_a, nullptr));
    std::printf("alone %d\n", b.broadcast(nullptr, 5, ncclFloat, 1, comm_b, nullptr));
  }
  std::printf("destroy %d %d\n", a.destroy(comm_a), b.destroy(comm_b));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<Framework> loaded;
  for (int i = 1; i < argc; ++i) loaded.push_back(load(argv[i]));
  if (std::getenv("PROBE_WAITS_FOR_AGENT") != nullptr) wait_for_agent(loaded[0]);
  for (size_t i = 1; i < loaded.size(); ++i) use(loaded[i - 1], loaded[i]);
  return 0;
}
