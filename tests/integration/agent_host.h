// One host for the tests of orrery-agent: the real agent between a controller that the test plays and processes that it
// plays too.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <thread>

#include "common/shm/plan_reader.h"
#include "tests/fakes/attach_client.h"
#include "tests/fakes/child_process.h"
#include "tests/fakes/fake_controller.h"
#include "tests/fakes/fake_process.h"
#include "tests/fakes/scratch_directory.h"

namespace orrery::test {

inline constexpr const char* kHostAddress = "10.250.0.1";

// An attached process: its connection, its segment and its plan table.
struct AttachedProcess {
  explicit AttachedProcess(const std::string& socket_path) : client(socket_path), received(client.attach()) {
    if (received.closed || received.reply.status != ORRERY_ATTACH_OK) return;
    process = std::make_unique<FakeProcess>(received.segment.get(), received.reply.segment_bytes);
    plan = mmap(nullptr, received.reply.plan_bytes, PROT_READ, MAP_SHARED, received.plan.get(), 0);
    readable = plan != MAP_FAILED && reader.open(plan, received.reply.plan_bytes);
  }
  ~AttachedProcess() {
    if (plan != MAP_FAILED) munmap(plan, received.reply.plan_bytes);
  }
  void announce(uint64_t comm_id, uint32_t rank, uint32_t nranks) {
    process->comm(ORRERY_EVENT_COMM_INIT, comm_id, rank, nranks, monotonic_now_ns());
    client.ring();
  }
  // Flow id of the plan for a connection to `dst`, 0 when there is none.
  uint64_t planned(const char* dst) const {
    shm::PlanQuery query{};
    std::memcpy(query.remote_address, IpAddress::parse(dst).value().bytes().data(), 16);
    query.protocol = IPPROTO_TCP;
    shm::PlanAnswer answer{};
    return reader.find(query, monotonic_now_ns(), &answer) ? answer.entry.flow_id : 0;
  }

  AttachClient client;
  AttachClient::Received received;
  std::unique_ptr<FakeProcess> process;
  void* plan = MAP_FAILED;
  shm::PlanReader reader;
  bool readable = false;
};

class AgentHost {
 public:
  AgentHost() : controller(scratch.ipc("intents"), scratch.ipc("agents")) { start(); }

  void start(std::vector<std::string> more = {}) {
    agent.reset();
    std::vector<std::string> command = {ORRERY_AGENT_BINARY,
                                        "--agent.host=h1",
                                        "--agent.socket_path=" + socket_path(),
                                        "--agent.extra_addresses=" + std::string(kHostAddress),
                                        "--controller.intents_endpoint=" + scratch.ipc("intents"),
                                        "--controller.agents_endpoint=" + scratch.ipc("agents"),
                                        "--metrics.listen_address=",
                                        "--bpf.mode=off"};
    command.insert(command.end(), more.begin(), more.end());
    const size_t hellos = controller.hellos.size(), windows = controller.windows.size();
    agent = std::make_unique<ChildProcess>(command, scratch.file("agent.log"));
    ready_ =
        controller.run_until([&] { return controller.hellos.size() > hellos && controller.windows.size() > windows; });
  }
  // The agent runs and its controller has heard of it.
  bool ready() const { return ready_; }
  std::string socket_path() const { return scratch.file("agent.sock"); }

  // Takes the controller's part until `done`, looking again every few milliseconds.
  bool wait_for(const std::function<bool()>& done) {
    for (int i = 0; i < 1000; ++i) {
      if (done()) return true;
      controller.run_until([] { return false; }, 10);
    }
    return false;
  }
  // Some window told of this communicator, urgently or at all.
  bool announced(uint64_t comm_id, bool urgent) const {
    for (const msg::IntentWindow& window : controller.windows)
      for (const msg::CommunicatorEvent& event : window.communicators)
        if (event.comm_id == comm_id && (window.urgent || !urgent)) return true;
    return false;
  }
  static msg::HostPlan plan(uint64_t revision, uint64_t comm_id, uint64_t flow_id, uint64_t lease_ns = 30'000'000'000) {
    msg::FlowPlan flow;
    flow.flow_id = flow_id;
    flow.comm_id = comm_id;
    flow.src = IpAddress::parse(kHostAddress).value();
    flow.dst = IpAddress::parse("10.250.0.2").value();
    return {.host = "h1", .term = 1, .revision = revision, .lease_ns = lease_ns, .flows = {flow}};
  }

  ScratchDirectory scratch;
  FakeController controller;
  std::unique_ptr<ChildProcess> agent;

 private:
  bool ready_ = false;
};

}  // namespace orrery::test
