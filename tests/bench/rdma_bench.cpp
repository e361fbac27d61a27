// ib_send_lat and ucx_perftest with recording and without, over soft-RoCE in a virtual machine: hands over to
// tests/vm/guest/slowdown.py there, which prints the figures.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main() {
  setenv("ORRERY_BUILD_DIR", ORRERY_BUILD, 1);
  execl(ORRERY_RUN_IN_VM, ORRERY_RUN_IN_VM, "--timeout", "500", ORRERY_SLOWDOWN, static_cast<char*>(nullptr));
  std::perror(ORRERY_RUN_IN_VM);
  return 1;
}
