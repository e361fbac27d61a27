// What one call costs here: prints "cost N" in nanoseconds, the median of many batches.
#include <unistd.h>

#include <algorithm>
#include <string>

#include "common/base/clock.h"
#include "tests/preload/verbs/verbs_objects.h"

namespace orrery::probe {
namespace {

constexpr int kBatch = 2000, kBatches = 400;

template <typename Call>
double median_cost(Call call) {
  std::vector<double> costs;
  for (int batch = 0; batch < kBatches; ++batch) {
    const uint64_t start = monotonic_now_ns();
    for (int i = 0; i < kBatch; ++i) call();
    costs.push_back(static_cast<double>(monotonic_now_ns() - start) / kBatch);
  }
  std::nth_element(costs.begin(), costs.begin() + kBatches / 2, costs.end());
  return costs[kBatches / 2];
}

}  // namespace

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
  const double cost = std::string(what) == "post_send"
                          ? median_cost([&] { post(pair.a, &wr); })
                          : median_cost([&] { ibv_poll_cq(pair.a->send_cq, 1, &completion); });
  std::printf("cost %.3f\n", cost);
}

}  // namespace orrery::probe
