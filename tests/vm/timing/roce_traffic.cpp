// An ordinary verbs program in the manner of NCCL's transport: a collective is called, then RDMA writes with immediate
// leave, and the thread polls until all have completed. Both ends are in this process, on two devices. Every byte is
// checked. It knows nothing of the library under test.
//
//   roce_traffic FROM_DEVICE TO_DEVICE ROUNDS MESSAGES BYTES [polling|step|asleep]
//
// Prints "start NS" (CLOCK_MONOTONIC, just before the collective) for every round and "verified BYTES" after the last,
// then waits for the end of standard input. With `step` it reads a character before every quarter of the rounds. With
// `asleep` it neither polls nor posts before the last byte has come, but sleeps and looks at the memory. An
// asynchronous event, or a state other than RTS between two rounds, is a failure.
#include <infiniband/verbs.h>
#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

struct ncclUniqueId {
  char internal[128];
};
using ncclComm_t = void*;
extern "C" {
int ncclGetUniqueId(ncclUniqueId* id);
int ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank);
int ncclAllReduce(const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm, void* stream);
}

namespace {

constexpr uint32_t kDepth = 64;
constexpr int kComms = 8;
constexpr uint64_t kPauseNs = 2'000'000;
constexpr int kFloat = 7, kSum = 0;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "roce_traffic: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

struct End {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  ibv_gid_entry gid{};
  std::vector<unsigned char> memory;
};

ibv_context* open_device(const std::string& name) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; i < count; ++i)
    if (name == ibv_get_device_name(devices[i])) context = ibv_open_device(devices[i]);
  ibv_free_device_list(devices);
  if (context == nullptr) fail(("no device " + name).c_str());
  return context;
}

// The GID of RoCEv2 over IPv4.
void find_gid(End& end) {
  for (uint32_t index = 0; index < 32; ++index) {
    if (ibv_query_gid_ex(end.context, 1, index, &end.gid, 0) != 0) continue;
    const bool is_v4 = end.gid.gid.raw[10] == 0xff && end.gid.gid.raw[11] == 0xff;
    if (end.gid.gid_type == IBV_GID_TYPE_ROCE_V2 && is_v4) return;
  }
  fail("no RoCEv2 address");
}

void make_end(End& end, const std::string& device, size_t bytes) {
  end.context = open_device(device);
  find_gid(end);
  end.pd = ibv_alloc_pd(end.context);
  end.cq = ibv_create_cq(end.context, 4 * kDepth, nullptr, nullptr, 0);
  end.memory.assign(bytes, 0);
  end.mr = ibv_reg_mr(end.pd, end.memory.data(), bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (end.pd == nullptr || end.cq == nullptr || end.mr == nullptr) fail("resources");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {kDepth, kDepth, 1, 1, 0};
  end.qp = ibv_create_qp(end.pd, &attributes);
  if (end.qp == nullptr) fail("ibv_create_qp");
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(end.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
    fail("INIT");
}

void connect(End& end, const End& peer) {
  ibv_qp_attr rtr{};
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = IBV_MTU_1024;
  rtr.dest_qp_num = peer.qp->qp_num;
  rtr.max_dest_rd_atomic = 1;
  rtr.min_rnr_timer = 12;
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.grh.dgid = peer.gid.gid;
  rtr.ah_attr.grh.sgid_index = static_cast<uint8_t>(end.gid.gid_index);
  rtr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(end.qp, &rtr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    fail("RTR");
  ibv_qp_attr rts{};
  rts.qp_state = IBV_QPS_RTS;
  rts.timeout = 18;
  rts.retry_cnt = rts.rnr_retry = 7;
  rts.max_rd_atomic = 1;
  if (ibv_modify_qp(end.qp, &rts,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    fail("RTS");
}

unsigned char pattern(uint64_t round, size_t position) {
  return static_cast<unsigned char>(round * 131 + position * 7 + (position >> 8));
}

void post_receives(End& to, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    ibv_recv_wr wr{}, *bad = nullptr;
    if (ibv_post_recv(to.qp, &wr, &bad) != 0) fail("ibv_post_recv");
  }
}

void post_writes(End& from, const End& to, uint32_t messages, uint32_t bytes) {
  for (uint32_t i = 0; i < messages; ++i) {
    const size_t offset = size_t{i} * bytes;
    ibv_sge part{reinterpret_cast<uint64_t>(from.memory.data() + offset), bytes, from.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = i;
    wr.sg_list = &part;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = i;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(to.memory.data() + offset);
    wr.wr.rdma.rkey = to.mr->rkey;
    errno = ibv_post_send(from.qp, &wr, &bad);
    if (errno != 0) fail("ibv_post_send");
  }
}

void poll_until(End& end, uint32_t wanted, bool in_order) {
  for (uint32_t seen = 0; seen < wanted;) {
    ibv_wc completion{};
    const int count = ibv_poll_cq(end.cq, 1, &completion);
    if (count < 0) fail("ibv_poll_cq");
    if (count == 0) continue;
    if (completion.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(completion.status));
    if (in_order && completion.wr_id != seen) fail("completions out of order");
    if (!in_order && completion.imm_data != seen) fail("messages out of order");
    ++seen;
  }
}

void sleep_until_last_byte(const End& to, uint64_t round, size_t bytes) {
  const volatile unsigned char* last = &to.memory[bytes - 1];
  while (*last != pattern(round, bytes - 1)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// What a proxy thread does while it has nothing to do.
void poll_in_vain(End& end) {
  ibv_wc completion{};
  const uint64_t until = now_ns() + kPauseNs;
  do {
    if (ibv_poll_cq(end.cq, 1, &completion) != 0) fail("a completion too many");
    std::this_thread::yield();
  } while (now_ns() < until);
}

void verify(const End& to, uint64_t round, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (to.memory[i] != pattern(round, i)) fail("wrong data");
}

void check_state(const End& end) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (ibv_query_qp(end.qp, &attributes, IBV_QP_STATE, &init) != 0 || attributes.qp_state != IBV_QPS_RTS ||
      end.qp->state != IBV_QPS_RTS)
    fail("not in RTS");
}

void watch_events(ibv_context* context) {
  std::thread([context] {
    ibv_async_event event{};
    if (ibv_get_async_event(context, &event) != 0) fail("ibv_get_async_event");
    std::fprintf(stderr, "roce_traffic: unexpected event: %s\n", ibv_event_type_str(event.event_type));
    std::_Exit(1);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const auto rounds = static_cast<uint64_t>(std::atoll(argv[3]));
  const auto messages = static_cast<uint32_t>(std::atoi(argv[4]));
  const auto bytes = static_cast<uint32_t>(std::atoi(argv[5]));
  const bool step = argc > 6 && std::strcmp(argv[6], "step") == 0;
  const bool asleep = argc > 6 && std::strcmp(argv[6], "asleep") == 0;
  const size_t total = size_t{messages} * bytes;

  // Several communicators, as frameworks make them: whoever listens has time to be there before the first connection.
  ncclComm_t comm = nullptr;
  for (int i = 0; i < kComms; ++i) {
    ncclUniqueId id{};
    if (ncclGetUniqueId(&id) != 0 || ncclCommInitRank(&comm, 2, id, 0) != 0) fail("communicator");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  End from, to;
  make_end(from, argv[1], total);
  make_end(to, argv[2], total);
  connect(to, from);
  connect(from, to);
  watch_events(from.context);
  watch_events(to.context);

  for (uint64_t round = 0; round < rounds; ++round) {
    if (step && round % (rounds / 4 != 0 ? rounds / 4 : 1) == 0) {
      std::printf("ready %llu\n", static_cast<unsigned long long>(round));
      std::fflush(stdout);
      if (std::getchar() == EOF) return 1;
    }
    for (size_t i = 0; i < total; ++i) from.memory[i] = pattern(round, i);
    post_receives(to, messages);
    poll_in_vain(from);
    const uint64_t start = now_ns();
    if (ncclAllReduce(nullptr, nullptr, total / 4, kFloat, kSum, comm, nullptr) != 0) fail("ncclAllReduce");
    post_writes(from, to, messages, bytes);
    if (asleep) sleep_until_last_byte(to, round, total);
    poll_until(from, messages, true);
    poll_until(to, messages, false);
    verify(to, round, total);
    check_state(from);
    std::printf("start %llu\n", static_cast<unsigned long long>(start));
    std::fflush(stdout);
  }
  std::printf("verified %llu\n", static_cast<unsigned long long>(rounds * total));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  if (ibv_destroy_qp(from.qp) != 0 || ibv_destroy_qp(to.qp) != 0) fail("ibv_destroy_qp");
  return 0;
}
