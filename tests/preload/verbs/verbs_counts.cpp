// Posts and completions of every kind, with what the agent should count for them.
#include <atomic>
#include <thread>

#include "tests/preload/verbs/verbs_objects.h"

namespace orrery::probe {

void wait_for_line(const char* word);

namespace {

void expect(const ibv_qp* qp, const char* counters) {
  std::printf("expect %u %s\n", qp->qp_num, counters);
}

void simple_kinds(const Device& device) {
  Pair pair(device);
  post_receives(pair.b, 4);
  post(pair.a, IBV_WR_RDMA_WRITE, 1000);
  post(pair.a, IBV_WR_RDMA_WRITE_WITH_IMM, 2000);
  post(pair.a, IBV_WR_SEND, 300);
  post(pair.a, IBV_WR_SEND_WITH_IMM, 40);
  post(pair.a, IBV_WR_RDMA_READ, 5000);
  post(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
  ibv_send_wr invalidate = request(IBV_WR_LOCAL_INV, nullptr);
  invalidate.sg_list = reinterpret_cast<ibv_sge*>(8);  // means nothing, and must not be looked at
  invalidate.num_sge = 3;
  post(pair.a, &invalidate);
  poll_all(pair.a->send_cq);
  poll_all(pair.b->send_cq);
  expect(pair.a,
         "tx_bytes=3348 rx_bytes=5000 posted_sends=7 writes=1 write_imms=1 sends=2 reads=1 atomics_and_others=2 "
         "send_completions=7 recv_completions=0 zero_imms=0 control_writes=0 flush_reads=0");
  expect(pair.b, "tx_bytes=0 rx_bytes=2340 posted_recvs=4 recv_completions=3 send_completions=0 posted_sends=0");
}

// Data, and the notice that ends it, in one chain; several buffers; inline; unsignaled.
void chains(const Device& device) {
  Pair pair(device);
  post_receives(pair.b, 2);
  ibv_sge parts[3] = {Sge(10).sge, Sge(200).sge, Sge(3000).sge};
  ibv_send_wr notice = request(IBV_WR_RDMA_WRITE_WITH_IMM, nullptr);
  ibv_send_wr data = request(IBV_WR_RDMA_WRITE, parts, 3, 0);
  data.next = &notice;
  post(pair.a, &data);
  post(pair.a, IBV_WR_RDMA_WRITE, 64, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
  post(pair.a, IBV_WR_RDMA_WRITE, 32, 0);
  poll_all(pair.a->send_cq);
  poll_all(pair.b->send_cq);
  // The last two are as short as a clear-to-send, but this side sends data and has no receives.
  expect(pair.a,
         "tx_bytes=3306 posted_sends=4 writes=3 write_imms=1 zero_imms=1 control_writes=0 send_completions=2 "
         "failed_posts=0");
  expect(pair.b, "rx_bytes=0 recv_completions=1 posted_recvs=2");
}

// Completed and freed by another thread before the post has returned.
void freed_requests(const Device& device) {
  Pair pair(device);
  std::printf("freed %d %d %d\n", post_freed(pair.a, 1), post_freed(pair.a, 2), post_freed_receives(pair.a));
  poll_all(pair.a->send_cq);
  expect(pair.a, "tx_bytes=300 posted_sends=3 writes=3 posted_recvs=2 send_completions=3");
}

// The provider takes three of five.
void partial_posts(const Device& device) {
  Pair pair(device);
  fake_ibverbs_set_room(pair.a, 3);
  Sge sge(100);
  ibv_send_wr chain[5], *bad = nullptr;
  for (int i = 0; i < 5; ++i) {
    chain[i] = request(IBV_WR_RDMA_WRITE, &sge.sge);
    if (i > 0) chain[i - 1].next = &chain[i];
  }
  const int result = ibv_post_send(pair.a, chain, &bad);
  std::printf("partial %d %d\n", result, bad == &chain[3]);
  std::printf("single %d\n", post(pair.a, IBV_WR_RDMA_WRITE, 100));
  poll_all(pair.a->send_cq);
  expect(pair.a, "tx_bytes=300 posted_sends=3 writes=3 failed_posts=3 send_completions=3");
  ibv_recv_wr taken{}, refused{}, *bad_recv = nullptr;
  taken.next = &refused;
  refused.num_sge = 99;
  std::printf("receives %d", ibv_post_recv(pair.b, &taken, &bad_recv));
  std::printf(" %d\n", bad_recv == &refused);
  expect(pair.b, "posted_recvs=1");
}

// Receives posted before the queue pair leads anywhere, as ibv_rc_pingpong does.
void early_receives(const Device& device) {
  ibv_qp* qp = make_qp(device);
  set_state(qp, IBV_QPS_INIT);
  post_receives(qp, 5);
  connect(qp, 0);
  post_receives(qp, 2);
  expect(qp, "posted_recvs=7");
}

// NCCL's receiving side: receives without buffers, then where to write to.
void clear_to_send(const Device& device) {
  Pair pair(device);
  for (int i = 0; i < 3; ++i) {
    ibv_recv_wr wr{}, *bad = nullptr;
    ibv_post_recv(pair.a, &wr, &bad);
    post(pair.a, IBV_WR_RDMA_WRITE, i == 0 ? 512 : 64, i == 0 ? 0 : IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  }
  poll_all(pair.a->send_cq);
  expect(pair.a, "tx_bytes=640 posted_sends=3 writes=3 control_writes=3 posted_recvs=3 send_completions=2");
  // The same shapes from a side that sends data.
  Pair data(device);
  post_receives(data.a, 1);
  post(data.a, IBV_WR_RDMA_WRITE, 4096);
  post(data.a, IBV_WR_RDMA_WRITE, 64, 0);
  expect(data.a, "writes=2 control_writes=0");
  // Of another length.
  Pair odd(device);
  post_receives(odd.a, 1);
  post(odd.a, IBV_WR_RDMA_WRITE, 63, 0);
  expect(odd.a, "writes=1 control_writes=0");
}

// A queue pair that leads to itself, on which a receiver flushes.
void flush(const Device& device) {
  ibv_qp* qp = make_qp(device);
  connect(qp, qp->qp_num, 1);
  for (int i = 0; i < 5; ++i) post(qp, IBV_WR_RDMA_READ, 1);
  poll_all(qp->send_cq);
  expect(qp, "reads=5 flush_reads=5 rx_bytes=5 tx_bytes=0 send_completions=5");
}

void failures(const Device& device) {
  Pair pair(device);
  for (int i = 0; i < 3; ++i) post(pair.a, IBV_WR_SEND, 10);  // nobody receives
  poll_all(pair.a->send_cq);
  expect(pair.a, "tx_bytes=30 sends=3 completion_errors=3 send_completions=0 recv_completions=0 rx_bytes=0");
}

void shared_receives(const Device& device) {
  ibv_srq_init_attr creation{};
  ibv_srq* srq = ibv_create_srq(device.pd, &creation);
  ibv_cq* cq = ibv_create_cq(device.context, 100, nullptr, nullptr, 0);
  Pair first(device, {.srq = srq, .cq = cq}), second(device, {.srq = srq, .cq = cq});
  Sge sge(4096);
  ibv_recv_wr wrs[4]{}, *bad = nullptr;
  for (int i = 0; i < 4; ++i) {
    wrs[i].sg_list = &sge.sge;
    wrs[i].num_sge = 1;
    wrs[i].next = i < 3 ? &wrs[i + 1] : nullptr;
  }
  ibv_post_srq_recv(srq, wrs, &bad);
  post(first.a, IBV_WR_SEND, 100);
  post(second.a, IBV_WR_SEND, 1000);
  post(first.a, IBV_WR_SEND, 10);
  poll_all(cq);  // completions of four queue pairs, mixed
  expect(first.a, "tx_bytes=110 send_completions=2");
  expect(first.b, "rx_bytes=110 recv_completions=2 posted_recvs=0");
  expect(second.b, "rx_bytes=1000 recv_completions=1 posted_recvs=0");
}

void bursts(const Device& device) {
  Pair pair(device);
  for (int i = 0; i < 3; ++i) {
    const timespec pause{0, 60'000'000};  // the fake agent is told to see a pause at 20 ms
    if (i > 0) nanosleep(&pause, nullptr);
    post(pair.a, IBV_WR_RDMA_WRITE, 10);
  }
  expect(pair.a, "bursts=3 tx_bytes=30");
}

}  // namespace

void count_everything() {
  for (const int index : {kFake, kMlx5}) {
    const Device device(index);
    simple_kinds(device);
    chains(device);
    partial_posts(device);
    freed_requests(device);
    early_receives(device);
    clear_to_send(device);
    flush(device);
    failures(device);
    shared_receives(device);
    bursts(device);
  }
  wait_for_line("done");
}

// Four threads post to one queue pair, two poll.
void count_with_threads() {
  constexpr int kPosts = 50'000, kThreads = 4;
  const Device device;
  Pair pair(device);
  std::atomic<int> posting = kThreads;
  std::atomic<long> polled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Sge sge(static_cast<uint32_t>(t + 1));
      for (int i = 0; i < kPosts; ++i) {
        ibv_send_wr second = request(IBV_WR_RDMA_WRITE, &sge.sge, 1, 0);
        ibv_send_wr first = request(IBV_WR_RDMA_WRITE, &sge.sge, 1, i % 16 == 0 ? unsigned{IBV_SEND_SIGNALED} : 0u);
        if (i % 2 == 0) first.next = &second;
        post(pair.a, &first);
      }
      --posting;
    });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (posting > 0) polled += poll_all(pair.a->send_cq);
    });
  for (std::thread& thread : threads) thread.join();
  // What one thread left to another in its last post shows with the next.
  post(pair.a, IBV_WR_RDMA_WRITE, 1);
  polled += poll_all(pair.a->send_cq);
  std::printf("polled %ld\n", polled.load());
  constexpr long kRequests = long{kPosts} * kThreads * 3 / 2 + 1, kBytes = long{kPosts} * 3 / 2 * (1 + 2 + 3 + 4) + 1;
  std::printf("expect %u posted_sends=%ld writes=%ld tx_bytes=%ld send_completions=%ld\n", pair.a->qp_num, kRequests,
              kRequests, kBytes, polled.load());
  wait_for_line("done");
}

namespace {

void poll_extended(ibv_cq_ex* cq) {
  ibv_poll_cq_attr attributes{};
  if (ibv_start_poll(cq, &attributes) != 0) return;
  while (ibv_next_poll(cq) == 0) {
  }
  ibv_end_poll(cq);
}

void extended_on(const Device& device, ibv_cq_ex* cq, ibv_qp* qp) {
  ibv_qp* peer = make_qp(device, {.cq = ibv_cq_ex_to_cq(cq)});
  connect(qp, peer->qp_num);
  connect(peer, qp->qp_num);
  post_receives(peer, 3);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ibv_qp_to_qp_ex(qp);  // again
  const auto target = reinterpret_cast<uint64_t>(memory + sizeof(memory) / 2);
  const auto source = reinterpret_cast<uint64_t>(memory);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(ex);
  ibv_wr_rdma_write(ex, 1, target);
  ibv_sge parts[2] = {Sge(100).sge, Sge(20).sge};
  ibv_wr_set_sge_list(ex, 2, parts);
  ibv_wr_rdma_write_imm(ex, 1, target, 7);
  ibv_wr_set_sge(ex, 1, source, 0);
  ibv_wr_send(ex);
  char text[] = "inline";
  ibv_wr_set_inline_data(ex, text, 6);
  ibv_wr_rdma_read(ex, 1, target);
  ibv_wr_set_sge(ex, 1, source, 4000);
  std::printf("complete %d\n", ibv_wr_complete(ex));
  ibv_wr_start(ex);
  ibv_wr_rdma_write(ex, 1, target);
  ibv_wr_set_sge(ex, 1, source, 999);
  ibv_wr_abort(ex);
  fake_ibverbs_set_room(qp, 1);
  ibv_wr_start(ex);
  for (int i = 0; i < 2; ++i) {
    ibv_wr_rdma_write(ex, 1, target);
    ibv_wr_set_sge(ex, 1, source, 50);
  }
  std::printf("complete %d\n", ibv_wr_complete(ex));
  fake_ibverbs_set_room(qp, -1);
  ibv_wr_start(ex);
  ibv_wr_local_inv(ex, 1);
  std::printf("complete %d\n", ibv_wr_complete(ex));
  post(qp, IBV_WR_RDMA_WRITE, 1);  // both ways on one queue pair
  poll_extended(cq);
  expect(qp,
         "tx_bytes=127 rx_bytes=4000 posted_sends=6 writes=2 write_imms=1 zero_imms=1 sends=1 reads=1 "
         "atomics_and_others=1 failed_posts=2 send_completions=6");
  expect(peer, "rx_bytes=6 recv_completions=2 posted_recvs=3");
}

ibv_cq_ex* make_extended_cq(const Device& device) {
  ibv_cq_init_attr_ex creation{};
  creation.cqe = 100;
  creation.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
  return ibv_create_cq_ex(device.context, &creation);
}

}  // namespace

void count_extended() {
  const Device fake(kFake), mlx5(kMlx5);
  for (const Device* device : {&fake, &mlx5}) {
    ibv_cq_ex* cq = make_extended_cq(*device);
    ibv_qp_init_attr_ex creation = extended_creation(*device, ibv_cq_ex_to_cq(cq));
    extended_on(*device, cq, ibv_create_qp_ex(device->context, &creation));
  }
  ibv_cq_init_attr_ex cq_creation{};
  cq_creation.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
  ibv_cq_ex* cq = mlx5dv_create_cq(mlx5.context, &cq_creation, nullptr);
  ibv_qp_init_attr_ex creation = extended_creation(mlx5, ibv_cq_ex_to_cq(cq));
  ibv_qp* last = mlx5dv_create_qp(mlx5.context, &creation, nullptr);
  extended_on(mlx5, cq, last);
  // What destroying puts back, and that a refusal keeps it working.
  ibv_qp* throwaway = ibv_create_qp_ex(mlx5.context, &creation);
  const ibv_qp_ex before = *ibv_qp_to_qp_ex(throwaway);
  FakeVerbsOrders orders{0, 0, false, EBUSY};
  fake_ibverbs_order(&orders);
  std::printf("destroy %d", ibv_destroy_qp(throwaway));
  const ibv_qp_ex* after = reinterpret_cast<ibv_qp_ex*>(throwaway);
  std::printf(" hooked again %d", after->wr_start == before.wr_start && after->wr_set_sge == before.wr_set_sge);
  std::printf(" destroy %d\n", ibv_destroy_qp(throwaway));
  fake_ibverbs_order(&orders);
  ibv_cq_ex* spare = make_extended_cq(mlx5);
  std::printf("destroy %d", ibv_destroy_cq(ibv_cq_ex_to_cq(spare)));
  std::printf(" %d\n", ibv_destroy_cq(ibv_cq_ex_to_cq(spare)));
  for (int i = 0; i < 3000; ++i) {  // more than any table holds
    ibv_cq_ex* next = make_extended_cq(mlx5);
    ibv_qp_init_attr_ex again = extended_creation(mlx5, ibv_cq_ex_to_cq(next));
    ibv_qp* qp = ibv_create_qp_ex(mlx5.context, &again);
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(ex);
    ibv_wr_abort(ex);
    poll_extended(next);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(ibv_cq_ex_to_cq(next));
  }
  wait_for_line("done");
}

}  // namespace orrery::probe
