// What one call costs here, told as the hook benchmark wants it.
#include <unistd.h>

#include <string>

#include "tests/bench/hook_costs.h"
#include "tests/preload/verbs/verbs_objects.h"

namespace orrery::probe {

// `what`: "post_send" or "poll_cq", of a queue pair whose provider does nothing.
void measure(const char* what) {
  const Device device;
  Pair pair(device);
  fake_ibverbs_make_hollow(pair.a);
  usleep(5000);
  Pair another(device);  // by now the clock of the library can be calibrated
  Sge sge(65536);
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge.sge);
  ibv_wc completion;
  const auto cost_of = [](auto call) { return bench::measure(2000, 200, call, [] {}); };
  bench::tell(what, std::string(what) == "post_send" ? cost_of([&] { post(pair.a, &wr); })
                                                     : cost_of([&] { ibv_poll_cq(pair.a->send_cq, 1, &completion); }));
}

}  // namespace orrery::probe
