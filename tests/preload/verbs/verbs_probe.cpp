// The program under test for the verbs layer: does what its first argument says on the fake libibverbs and prints what
// it saw. "expect QPN name=value ..." lines say what the agent should have counted for that queue pair.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "tests/preload/nccl_calls.h"
#include "tests/preload/probe_syscalls.h"
#include "tests/preload/verbs/verbs_objects.h"

namespace orrery::probe {

void count_everything();         // verbs_counts.cpp
void count_with_threads();       // verbs_counts.cpp
void count_extended();           // verbs_counts.cpp
void measure(const char* what);  // verbs_measure.cpp

void wait_for_line(const char* word) {
  std::printf("%s\n", word);
  std::fflush(stdout);
  char line;
  if (read(STDIN_FILENO, &line, 1) < 0) std::exit(1);
}

namespace {

// Memory that ends where a caller's older and shorter struct would, and that must not be written to.
class Guarded {
 public:
  explicit Guarded(const ibv_qp_attr& attributes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    base_ = static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page, page, PROT_NONE);
    const size_t used = offsetof(ibv_qp_attr, rate_limit);
    at_ = base_ + page - (used + 7) / 8 * 8;
    std::memcpy(at_, &attributes, used);
    mprotect(base_, page, PROT_READ);
  }
  ibv_qp_attr* get() const { return reinterpret_cast<ibv_qp_attr*>(at_); }

 private:
  char* base_;
  char* at_;
};

long value_of(const std::string& words, const std::string& name, long otherwise) {
  const size_t at = (" " + words).find(" " + name + "=");
  return at == std::string::npos ? otherwise : std::strtol(words.c_str() + at + name.size() + 1, nullptr, 0);
}

// One INIT -> RTR. Words: device, gid, peer, global, label, tc, type (2 RC, 3 UC, 4 UD), nomask (bits taken out of the
// mask), self (leads to itself), error, failures, labelled, again (the call is repeated).
void path_case(const std::string& words, std::map<long, Device>& devices) {
  const long index = value_of(words, "device", 0);
  if (devices.count(index) == 0) devices.emplace(index, Device(static_cast<int>(index)));
  ibv_qp* qp = make_qp(devices.at(index), {.type = static_cast<ibv_qp_type>(value_of(words, "type", IBV_QPT_RC))});
  set_state(qp, IBV_QPS_INIT);
  const bool self = value_of(words, "self", 0) != 0;
  ibv_gid peer = peer_gid(static_cast<uint8_t>(value_of(words, "peer", self ? 1 : 2)));
  ibv_qp_attr attributes =
      rtr_attributes(self ? qp->qp_num : 0x4711, peer, static_cast<int>(value_of(words, "gid", 1)));
  attributes.ah_attr.is_global = static_cast<uint8_t>(value_of(words, "global", 1));
  attributes.ah_attr.grh.flow_label = static_cast<uint32_t>(value_of(words, "label", 0));
  attributes.ah_attr.grh.traffic_class = static_cast<uint8_t>(value_of(words, "tc", 0));
  const FakeVerbsOrders orders{static_cast<int>(value_of(words, "error", 0)),
                               static_cast<int>(value_of(words, "failures", 0)), value_of(words, "labelled", 0) != 0,
                               0};
  fake_ibverbs_order(&orders);
  FakeVerbsSeen before, after;
  fake_ibverbs_seen(&before);
  const Guarded guarded(attributes);
  errno = 4242;
  const int result = ibv_modify_qp(qp, guarded.get(), kRtrMask & ~static_cast<int>(value_of(words, "nomask", 0)));
  const int error = errno;
  fake_ibverbs_seen(&after);
  if (value_of(words, "again", 0) != 0)  // as NCCL does after a timeout
    std::printf("again %d\n", ibv_modify_qp(qp, guarded.get(), kRtrMask));
  std::printf("case rc=%d errno=%d calls=%d label=%u tc=%d state=%d\n", result, error,
              after.modify_calls - before.modify_calls, after.modify.ah_attr.grh.flow_label,
              after.modify.ah_attr.grh.traffic_class, qp->state);
}

void paths(const std::vector<std::string>& cases) {
  std::map<long, Device> devices;
  for (const std::string& words : cases) path_case(words, devices);
}

// The same queue pair, made ready three times; and a second one to the same peer.
void cycles() {
  Device device;
  ibv_qp* qp = make_qp(device);
  for (int i = 0; i < 3; ++i) {
    connect(qp, 100);
    post(qp, IBV_WR_RDMA_WRITE, 1000);
    if (i < 2) set_state(qp, IBV_QPS_RESET);
  }
  ibv_qp* other = make_qp(device);
  connect(other, 101);
  std::printf("qpn %u\nqpn %u\nexpect %u tx_bytes=1000 posted_sends=1\n", qp->qp_num, other->qp_num, qp->qp_num);
  wait_for_line("done");
  std::printf("destroyed %d\n", ibv_destroy_qp(qp));
}

// Every opener and every maker, and the tables afterwards.
void routes() {
  Device opened(ibv_open_device(device(kFake))), imported(ibv_import_device(3)),
      mlx5(mlx5dv_open_device(device(kMlx5), nullptr));
  const auto follow = [](const char* how, ibv_qp* qp) {
    connect(qp, 0);
    post(qp, IBV_WR_RDMA_WRITE, 77);
    std::printf("%s\nexpect %u tx_bytes=77 posted_sends=1 writes=1\n", how, qp->qp_num);
  };
  follow("open", make_qp(opened));
  follow("import", make_qp(imported));
  follow("mlx5 open", make_qp(mlx5));
  ibv_qp_init_attr_ex creation = extended_creation(opened);
  creation.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  follow("create_qp_ex", ibv_create_qp_ex(opened.context, &creation));
  creation.pd = mlx5.pd;
  follow("mlx5dv_create_qp", mlx5dv_create_qp(mlx5.context, &creation, nullptr));
  wait_for_line("done");
}

struct Tables {
  explicit Tables(ibv_context* context)
      : ops(context->ops),
        create_qp_ex(verbs_get_ctx(context)->create_qp_ex),
        create_cq_ex(verbs_get_ctx(context)->create_cq_ex) {}
  bool same(ibv_context* context) const {
    return std::memcmp(&ops, &context->ops, sizeof(ops)) == 0 && create_qp_ex == verbs_get_ctx(context)->create_qp_ex &&
           create_cq_ex == verbs_get_ctx(context)->create_cq_ex;
  }
  ibv_context_ops ops;
  ibv_qp* (*create_qp_ex)(ibv_context*, ibv_qp_init_attr_ex*);
  ibv_cq_ex* (*create_cq_ex)(ibv_context*, ibv_cq_init_attr_ex*);
};

// Closing puts back what we changed, nothing else; when it fails the hooks come back.
void closing() {
  Device device;
  const Tables hooked(device.context);
  auto* own = reinterpret_cast<int (*)(ibv_mw*)>(0x1234);
  device.context->ops.dealloc_mw = own;
  FakeVerbsOrders orders{0, 0, false, EBUSY};
  fake_ibverbs_order(&orders);
  const int busy = ibv_close_device(device.context);
  device.context->ops.dealloc_mw = hooked.ops.dealloc_mw;
  std::printf("busy %d hooked again %d\n", busy, hooked.same(device.context));
  device.context->ops.dealloc_mw = own;
  auto* another = reinterpret_cast<int (*)(ibv_cq*, int, ibv_wc*)>(0x5678);
  device.context->ops.poll_cq = another;  // someone came after us
  fake_ibverbs_order(&orders);
  // The fake refuses a first time, so that what closing has put back can be looked at: hooks are in place again except
  // for the pointer that is not ours.
  ibv_close_device(device.context);
  std::printf("left alone %d %d\n", device.context->ops.poll_cq == another, device.context->ops.dealloc_mw == own);
  std::printf("closed %d\n", ibv_close_device(device.context));
  for (int i = 0; i < 500; ++i) {  // more than any table holds
    Device next(i % 2);
    ibv_qp* qp = make_qp(next);
    if (connect(qp, 1) != 0 || post(qp, IBV_WR_RDMA_WRITE, 1) != 0) std::printf("lost device %d\n", i);
    if (i % 3 != 0) ibv_destroy_qp(qp);
    ibv_close_device(next.context);
  }
}

// More queue pairs, one after another and at once, than the table holds.
void many_qps() {
  Device device;
  ibv_cq* cq = ibv_create_cq(device.context, 10, nullptr, nullptr, 0);
  std::vector<ibv_qp*> all;
  for (int i = 0; i < 5000; ++i) {
    all.push_back(make_qp(device, {.cq = cq}));
    if (connect(all.back(), 1) != 0 || post(all.back(), IBV_WR_RDMA_WRITE, 1, 0) != 0) std::printf("lost qp %d\n", i);
  }
  for (ibv_qp* qp : all) ibv_destroy_qp(qp);
  for (int i = 0; i < 20000; ++i) {
    ibv_qp* qp = make_qp(device, {.cq = cq});
    if (post(qp, IBV_WR_RDMA_WRITE, 1, 0) != 0) std::printf("lost qp %d\n", i);
    ibv_destroy_qp(qp);
  }
  ibv_qp* last = make_qp(device, {.cq = cq});
  connect(last, 1);
  post(last, IBV_WR_RDMA_WRITE, 31);
  std::printf("expect %u tx_bytes=31 posted_sends=1\n", last->qp_num);
  wait_for_line("done");
}

void broken_table() {
  fake_ibverbs_break_table();
  Device broken;
  std::printf("untouched %d\n", broken.context->ops.post_send == nullptr);
  Device sound;
  ibv_qp* qp = make_qp(sound);
  connect(qp, 1);
  post(qp, IBV_WR_RDMA_WRITE, 5);
  std::printf("expect %u tx_bytes=5 posted_sends=1\n", qp->qp_num);
  wait_for_line("done");
}

template <typename Function>
Function* versioned(void* library, const char* name, const char* version) {
  return reinterpret_cast<Function*>(dlvsym(library, name, version));
}

// What NCCL does, with a copy of the library of its own.
ibv_qp* through_dlvsym(void* library, uint8_t peer) {
  const auto find = [&]<typename F>(F*, const char* name, const char* version = "IBVERBS_1.1") {
    return versioned<F>(library, name, version);
  };
  int count = 0;
  ibv_device** list = find(ibv_get_device_list, "ibv_get_device_list")(&count);
  ibv_context* context = find(ibv_open_device, "ibv_open_device")(list[0]);
  ibv_pd* pd = find(ibv_alloc_pd, "ibv_alloc_pd")(context);
  ibv_qp_init_attr creation{};
  creation.qp_type = IBV_QPT_RC;
  creation.send_cq = creation.recv_cq = find(ibv_create_cq, "ibv_create_cq")(context, 16, nullptr, nullptr, 0);
  ibv_qp* qp = find(ibv_create_qp, "ibv_create_qp")(pd, &creation);
  auto* modify = find(ibv_modify_qp, "ibv_modify_qp");
  ibv_qp_attr attributes = rtr_attributes(1, peer_gid(peer));
  std::printf("modify %d ", modify(qp, &attributes, kRtrMask));
  FakeVerbsSeen seen;
  find(fake_ibverbs_seen, "fake_ibverbs_seen", "IBVERBS_1.0")(&seen);
  std::printf("label %u calls %d\n", seen.modify.ah_attr.grh.flow_label, seen.modify_calls);
  post(qp, IBV_WR_RDMA_WRITE, 64);
  return qp;
}

void copies(const std::vector<std::string>& libraries) {
  for (const std::string& path : libraries) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::printf("dlopen: %s\n", dlerror());
    for (int round = 0; round < 2; ++round) {
      ibv_qp* qp = through_dlvsym(library, 2);
      std::printf("expect %u.%d tx_bytes=64 posted_sends=1\n", qp->qp_num, round);
    }
  }
  wait_for_line("done");
}

extern "C" int old_modify_qp(void*, void*, int);
extern "C" ibv_context* old_open_device(ibv_device*);
__asm__(".symver old_modify_qp, ibv_modify_qp@IBVERBS_1.0");
__asm__(".symver old_open_device, ibv_open_device@IBVERBS_1.0");

// A program that links, or asks for, the bodies of the older ABI gets them.
void old_abi() {
  std::printf("linked %d %d\n", old_modify_qp(nullptr, nullptr, 0), old_open_device(nullptr) == nullptr);
  auto* looked_up = versioned<int(void*, void*, int)>(RTLD_DEFAULT, "ibv_modify_qp", "IBVERBS_1.0");
  std::printf("looked up %d\n", looked_up != nullptr ? looked_up(nullptr, nullptr, 0) : -1);
  auto* destroy = versioned<int(void*)>(RTLD_DEFAULT, "ibv_destroy_qp", "IBVERBS_1.0");
  std::printf("looked up %d\n", destroy != nullptr ? destroy(nullptr) : -1);
  FakeVerbsSeen seen;
  fake_ibverbs_seen(&seen);
  std::printf("old calls %d\n", seen.old_calls);
}

// Everything a program can see, to be compared with and without the library.
void tour() {
  Device device;
  Pair pair(device, {.sig_all = true});
  std::printf("receives %d\n", post_receives(pair.b, 3));
  std::printf("send %d\n", post(pair.a, IBV_WR_SEND, 100));
  fake_ibverbs_set_room(pair.a, 1);
  Sge sge(10);
  ibv_send_wr second = request(IBV_WR_RDMA_WRITE, &sge.sge), first = request(IBV_WR_RDMA_WRITE, &sge.sge), *bad;
  first.next = &second;
  errno = 77;
  const int result = ibv_post_send(pair.a, &first, &bad);
  std::printf("chain %d bad %d errno %d\n", result, bad == &second, errno);
  std::printf("polled %d %d\n", poll_all(pair.a->send_cq), poll_all(pair.b->send_cq));
  FakeVerbsOrders orders{0, 0, false, EBUSY};
  fake_ibverbs_order(&orders);
  std::printf("destroy busy %d", ibv_destroy_qp(pair.a));
  std::printf(" then %d\n", ibv_destroy_qp(pair.a));
  std::printf("modify %d %d\n", set_state(pair.b, IBV_QPS_SQD), set_state(pair.b, IBV_QPS_ERR));
  std::printf("no extension %d\n", ibv_qp_to_qp_ex(pair.b) == nullptr);
  std::printf("close %d\n", ibv_close_device(device.context));
}

void fork_child() {
  Device device;
  Pair pair(device);
  post(pair.a, IBV_WR_RDMA_WRITE, 10);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; ++i) post(pair.a, IBV_WR_RDMA_WRITE, 1000);
    poll_all(pair.a->send_cq);
    Device own;
    Pair others(own);
    post(others.a, IBV_WR_RDMA_WRITE, 1);
    ibv_destroy_qp(pair.a);
    _exit(ibv_close_device(device.context));
  }
  int status = -1;
  waitpid(child, &status, 0);
  post(pair.a, IBV_WR_RDMA_WRITE, 10);
  std::printf("child %d\nexpect %u tx_bytes=20 posted_sends=2\n", status, pair.a->qp_num);
  wait_for_line("done");
}

void count_syscalls() {
  Device device;
  Pair pair(device);
  fake_ibverbs_make_hollow(pair.a);
  usleep(5000);  // the clock is calibrated by what comes next
  connect(make_qp(device), 1);
  ibv_wc completion;
  for (int i = 0; i < 100; ++i) post(pair.a, IBV_WR_RDMA_WRITE, 10), ibv_poll_cq(pair.a->send_cq, 1, &completion);
  trap_all_syscalls();
  for (int i = 0; i < 20'000; ++i) post(pair.a, IBV_WR_RDMA_WRITE, 10), ibv_poll_cq(pair.a->send_cq, 1, &completion);
  print_raw("syscalls ", trapped_syscalls());
  leave(0);
}

int run(const std::string& what, const std::vector<std::string>& arguments) {
  const std::map<std::string, std::function<void()>> commands{
      {"paths", [&] { paths(arguments); }},
      {"cycles", cycles},
      {"routes", routes},
      {"closing", closing},
      {"many-qps", many_qps},
      {"broken-table", broken_table},
      {"copies", [&] { copies(arguments); }},
      {"old-abi", old_abi},
      {"tour", tour},
      {"fork-child", fork_child},
      {"syscalls", count_syscalls},
      {"counts", count_everything},
      {"threads", count_with_threads},
      {"extended", count_extended},
      {"measure", [&] { measure(arguments.at(0).c_str()); }},
  };
  const auto command = commands.find(what);
  if (command == commands.end()) return 2;
  if (std::getenv("PROBE_WAITS_FOR_AGENT") != nullptr) {
    const ncclUniqueId id{};
    const auto call_agent = [&] { ncclCommInitRank(nullptr, 0, id, 0); };  // fails, and leaves no trace but that
    call_agent();
    wait_for_line("ready");
    call_agent();
  }
  command->second();
  return 0;
}

}  // namespace
}  // namespace orrery::probe

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return orrery::probe::run(argv[1], {argv + 2, argv + argc});
}
