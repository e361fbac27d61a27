// The program under test for the timing of sends: posts on the fake libibverbs after a collective, then does what its
// first argument says and prints whether the data have arrived before and after. A fake request takes effect as soon as
// the provider has it.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "tests/preload/probe_syscalls.h"
#include "tests/preload/timing/timing_scene.h"

namespace orrery::probe {
namespace {

// What must not happen to end in a deadlock ends in a signal instead.
void post_while(ibv_qp* qp, void (*in_provider)()) {
  alarm(20);
  FakeVerbsOrders orders{};
  orders.after_post = in_provider;
  fake_ibverbs_order(&orders);
  post(qp, IBV_WR_LOCAL_INV, 0);
  orders.after_post = nullptr;
  fake_ibverbs_order(&orders);
}

// Providers write to their device, and write is where a cancelled thread ends.
void post_in_cancelled_thread(ibv_qp* qp) {
  std::thread([qp] {
    pthread_cancel(pthread_self());
    post_while(qp, [] {
      if (write(STDOUT_FILENO, "", 0) < 0) std::exit(1);
    });
    pthread_testcancel();
  }).join();
  fake_ibverbs_order(std::array<FakeVerbsOrders, 1>{}.data());
  write_byte(qp, 3, 33, 33);
}

// Can be used by ibv_post_send as by ibv_wr_*.
ibv_qp* make_extended(const Scene& scene) {
  ibv_qp_init_attr_ex creation = extended_creation(scene.device);
  creation.cap = {.max_send_wr = 256, .max_recv_wr = 0, .max_send_sge = 4, .max_recv_sge = 0, .max_inline_data = 64};
  ibv_qp* qp = ibv_create_qp_ex(scene.device.context, &creation);
  connect(qp, scene.pair.b->qp_num);
  warm_up(qp);
  return qp;
}

void bind_window(ibv_qp* qp) {
  ibv_mw window{};
  window.context = qp->context;
  window.type = IBV_MW_TYPE_1;
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  if (ibv_bind_mw(qp, &window, &bind) != 0) std::exit(1);
}

void hold_until(const std::string& what) {
  Scene scene;
  if (what == "extended") scene.pair.a = make_extended(scene);
  ibv_qp* qp = scene.pair.a;
  ibv_cq* cq = qp->send_cq;
  const std::map<std::string, std::function<void()>> actions{
      {"bind", [&] { bind_window(qp); }},
      {"destroy", [&] { ibv_destroy_qp(qp); }},
      {"err", [&] { set_state(qp, IBV_QPS_ERR); }},
      {"extended", [&] { ibv_qp_to_qp_ex(qp); }},
      {"reset", [&] { set_state(qp, IBV_QPS_RESET); }},
      {"sqd", [&] { set_state(qp, IBV_QPS_SQD); }},
      {"what cannot be copied", [&] { post(qp, IBV_WR_LOCAL_INV, 0); }},
      {"cancel", [&] { post_in_cancelled_thread(qp); }},
      {"freed", [&] { post(qp, IBV_WR_LOCAL_INV, 0), post_freed(qp, 1), post_freed(qp, 2); }},
      {"threads", [&] { std::printf("threads %d\n", tasks()); }},
      {"lease", [&] { wait_for_line("held"), poll_all(cq); }},
      {"agent",
       [&] {
         wait_for_line("held");
         usleep(400'000);  // longer than between two looks at the connection
         write_byte(qp, 3, 33, 33);
         usleep(1000);
         write_byte(qp, 4, 44, 44);
       }},
  };
  hold_two(scene);
  actions.at(what)();
  print_after(what.c_str(), what == "destroy" ? nullptr : cq);
}

// What is never held, each after a collective whose release is far away.
void never_held(const std::string& what) {
  if (what == "without locks") setenv("FAKE_SINGLE_THREADED", "1", 1);  // as programs do, before they open a device
  Scene scene;
  ibv_qp* qp = scene.pair.a;
  if (what == "thread domain") {
    ibv_td_init_attr attributes{};
    ibv_alloc_td(scene.device.context, &attributes);
  }
  if (what == "extended") ibv_qp_to_qp_ex(qp = make_extended(scene));
  if (what == "no more threads") refuse_threads();
  if (what == "no data") {
    collective();
    post(qp, IBV_WR_RDMA_WRITE, 0);
    std::printf("%s: completions %d\n", what.c_str(), poll_all(qp->send_cq));
    return;
  }
  if (what == "clear to send") {
    ibv_qp* receiver = make_qp(scene.device);
    connect(receiver, scene.pair.b->qp_num);
    post_receives(receiver, 1);
    for (int round = 0; round < 2; ++round) {
      collective();
      memory[kTarget] = 0;
      memory[0] = 9;
      post(receiver, IBV_WR_RDMA_WRITE, 64, 0);
      std::printf("%s: arrived %d\n", what.c_str(), memory[kTarget] == 9);
      poll_all(receiver->send_cq);
      usleep(1000);
    }
    return;
  }
  collective();
  write_byte(qp, 1, 11);
  std::printf("%s: arrived %d\n", what.c_str(), arrived(1, 11));
}

void release_at(const std::string& offset_us) {
  Scene scene;
  for (int round = 0; round < 5; ++round) {
    const auto value = static_cast<char>(50 + round);
    const uint64_t start = collective();
    write_byte(scene.pair.a, 1, value);
    ibv_wc completion{};
    while (ibv_poll_cq(scene.pair.a->send_cq, 1, &completion) == 0) {
    }
    const uint64_t waited = now_ns() - start;
    std::printf("early %d\n", waited < std::stoull(offset_us) * 1000 || !arrived(1, value));
    usleep(1000);
    poll_all(scene.pair.a->send_cq);
  }
}

void refused_late() {
  Scene scene;
  ibv_qp* qp = scene.pair.a;
  FakeVerbsOrders orders{};
  orders.refused_wr_id = 2;
  fake_ibverbs_order(&orders);
  collective();
  for (uint64_t id = 1; id <= 3; ++id) std::printf("post %d\n", write_byte(qp, id, 1, id));
  ibv_wc completion{};
  for (int seen = 0; seen < 3;)
    if (ibv_poll_cq(qp->send_cq, 1, &completion) == 1) {
      std::printf("wr %d status %d\n", static_cast<int>(completion.wr_id), completion.status);
      ++seen;
    }
  std::printf("state %d\n", qp->state);
}

// The parent holds; its child must post nothing of it, the parent all.
void hold_and_fork() {
  Scene scene;
  hold_two(scene);
  const pid_t child = fork();
  if (child == 0) {
    poll_all(scene.pair.a->send_cq);
    Device own;  // from here on the child is a process of its own
    Pair others(own);
    poll_all(scene.pair.a->send_cq);
    ibv_destroy_qp(scene.pair.a);
    _exit(arrived(1, 11) || arrived(2, 22) || tasks() != 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  set_state(scene.pair.a, IBV_QPS_SQD);
  std::printf("child %d\n", status);
  print_after("parent", scene.pair.a->send_cq);
}

// Chains of writes in random sizes with pauses: everything must arrive, in order. The output is the same with and
// without the library.
void anything(const std::string& seed) {
  Scene scene;
  ibv_qp* qp = scene.pair.a;
  std::mt19937 random(static_cast<unsigned>(std::stoul(seed)));
  uint64_t posted = 0, completed = 0, wrong = 0, signaled = 0;
  std::map<uint64_t, bool> expected;
  for (int round = 0; round < 400; ++round) {
    if (random() % 4 == 0) collective();
    ibv_send_wr chain[5];
    ibv_sge parts[5];
    char data[5];
    const size_t count = 1 + random() % 5;
    for (size_t i = 0; i < count; ++i) {
      const bool is_inline = random() % 2;
      const bool is_signaled = random() % 2;
      data[i] = static_cast<char>(posted + 1);
      memory[i] = data[i];
      parts[i] = {reinterpret_cast<uint64_t>(is_inline ? &data[i] : &memory[1000 + posted % 4000]), 1, 0};
      memory[1000 + posted % 4000] = data[i];
      chain[i] = request(random() % 8 == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &parts[i]);
      if (chain[i].opcode == IBV_WR_RDMA_READ) parts[i].addr = reinterpret_cast<uint64_t>(memory + 900);
      if (!is_signaled) chain[i].send_flags = 0;
      if (is_inline && chain[i].opcode != IBV_WR_RDMA_READ) chain[i].send_flags |= IBV_SEND_INLINE;
      chain[i].wr_id = ++posted;
      chain[i].wr.rdma.remote_addr += 8 * 1024 + posted % 4000;
      chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
      if (is_signaled) ++signaled;
    }
    if (post(qp, chain) != 0) ++wrong;
    std::memset(data, 0x7f, sizeof(data));
    std::memset(static_cast<void*>(parts), 0x7f, sizeof(parts));
    std::memset(static_cast<void*>(chain), 0x7f, sizeof(chain));
    static uint64_t last = 0;
    ibv_wc completion{};
    for (unsigned polls = random() % 20; polls != 0; --polls)
      if (ibv_poll_cq(qp->send_cq, 1, &completion) == 1) {
        if (completion.status != IBV_WC_SUCCESS || completion.wr_id <= last) ++wrong;
        last = completion.wr_id;
        ++completed;
      }
    if (random() % 8 == 0) usleep(300);
  }
  alarm(60);
  while (completed < signaled) completed += static_cast<uint64_t>(poll_all(qp->send_cq));
  usleep(10'000);  // nothing is to come twice
  completed += static_cast<uint64_t>(poll_all(qp->send_cq));
  std::printf("posted %d signaled %d completed %d wrong %d\n", static_cast<int>(posted), static_cast<int>(signaled),
              static_cast<int>(completed), static_cast<int>(wrong));
}

// Bursts of one write, each completed before the next, while the plan changes.
void bursts(ibv_qp* qp, int count, unsigned flags = IBV_SEND_SIGNALED) {
  for (int i = 0; i < count; ++i) {
    write_byte(qp, 1, static_cast<char>(i), 1, flags);
    poll_all(qp->send_cq);
    usleep(500);
  }
}

void print_moves(const char* what, ibv_qp* qp, int calls_before) {
  FakeVerbsSeen seen;
  fake_ibverbs_seen(&seen);
  std::printf("%s: calls %d state %d\n", what, seen.modify_calls - calls_before, qp->state);
}

void move(const std::string& how) {
  Scene scene;
  ibv_qp* qp = scene.pair.a;
  FakeVerbsSeen seen;
  bursts(qp, 20);
  fake_ibverbs_seen(&seen);
  const int before = seen.modify_calls;
  print_moves("at first", qp, before);
  if (how == "refused") {
    FakeVerbsOrders orders{};
    orders.sqd_av_error = EINVAL;
    orders.sqd_av_failures = 1'000'000;
    fake_ibverbs_order(&orders);
  }
  if (how == "slow drain") {
    FakeVerbsOrders orders{};
    orders.sqd_av_error = EINVAL;
    orders.sqd_av_failures = 3;
    fake_ibverbs_order(&orders);
  }
  wait_for_line("change");
  if (how == "busy") {
    for (int i = 0; i < 20; ++i) {
      write_byte(qp, 1, static_cast<char>(i));  // never polled: always outstanding
      usleep(500);
    }
    print_moves("busy", qp, before);
    poll_all(qp->send_cq);
  }
  bursts(qp, 20, how == "unsignaled" ? 0 : IBV_SEND_SIGNALED);
  print_moves("then", qp, before);
  bursts(qp, 20);
  print_moves("later", qp, before);
  FakeVerbsOrders none{};
  fake_ibverbs_order(&none);
  wait_for_line("done");
}

int run(const std::string& what, const std::string& argument) {
  const std::map<std::string, std::function<void()>> commands{
      {"hold", [&] { hold_until(argument); }},
      {"never", [&] { never_held(argument); }},
      {"release", [&] { release_at(argument); }},
      {"refused", refused_late},
      {"blocked", [&] { blocked(argument); }},
      {"blocked until told", blocked_until_told},
      {"life", life},
      {"end", [&] { end_last_thread(argument); }},
      {"steady", hold_steadily},
      {"crowd", crowd},
      {"fork", hold_and_fork},
      {"in post", [&] { while_release_thread_posts(argument); }},
      {"anything", [&] { anything(argument); }},
      {"move", [&] { move(argument); }},
  };
  const auto command = commands.find(what);
  if (command == commands.end()) return 2;
  ncclUniqueId id{};
  if (std::getenv("PROBE_WAITS_FOR_AGENT") != nullptr) {
    const auto call_agent = [&] { ncclCommInitRank(nullptr, 0, id, 0); };  // fails, and leaves no trace but that
    call_agent();
    wait_for_line("ready");
    call_agent();
  }
  ncclGetUniqueId(&id);
  ncclCommInitRank(&comm, 2, id, 0);
  command->second();
  return 0;
}

}  // namespace
}  // namespace orrery::probe

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return orrery::probe::run(argv[1], argc > 2 ? argv[2] : "");
}
