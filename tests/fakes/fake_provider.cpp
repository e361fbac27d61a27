// A provider's library before the fake libibverbs: what it is called (librxe..., libmlx5...) is how the library under
// test tells providers apart. Hands every call on. With FAKE_PROVIDER_MLX5 it has the function of mlx5 that changes a
// live queue pair's source port, which prints "sport PORT" or answers $FAKE_MLX5_SPORT_ERROR.
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>

#define FAKE_PROVIDER_API extern "C" __attribute__((visibility("default")))

namespace {

ibv_context_ops behind;

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  return behind.post_send(qp, wr, bad_wr);
}
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return behind.post_recv(qp, wr, bad_wr);
}
int poll_cq(ibv_cq* cq, int room, ibv_wc* completions) {
  return behind.poll_cq(cq, room, completions);
}
int req_notify_cq(ibv_cq* cq, int solicited_only) {
  return behind.req_notify_cq(cq, solicited_only);
}

}  // namespace

FAKE_PROVIDER_API void fake_provider_put_before(ibv_context_ops* ops) {
  behind = *ops;
  ops->post_send = post_send;
  ops->post_recv = post_recv;
  ops->poll_cq = poll_cq;
  ops->req_notify_cq = req_notify_cq;
}

#ifdef FAKE_PROVIDER_MLX5
FAKE_PROVIDER_API int mlx5dv_modify_qp_udp_sport(ibv_qp*, uint16_t port) {
  if (const char* error = std::getenv("FAKE_MLX5_SPORT_ERROR")) {
    std::printf("sport refused\n");
    return std::atoi(error);
  }
  std::printf("sport %u\n", port);
  return 0;
}
#endif
