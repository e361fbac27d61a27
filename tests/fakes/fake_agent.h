// A fake of the agent's side of the attach handshake: answers as told, hands out real segments and plan tables, and
// collects what the processes write. Runs a thread of its own; every member function may be called from the test's
// thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/abi/attach_abi.h"
#include "common/shm/agent_segment.h"
#include "common/shm/plan_table.h"

namespace orrery::fakes {

struct FakeAgentOptions {
  shm::SegmentShape shape{.ring_count = 8, .ring_events = 1024, .flow_slots = 64};
  uint32_t status = ORRERY_ATTACH_OK;
  uint32_t abi_version = ORRERY_ABI_VERSION;
  uint32_t flowlet_gap_ns = 100'000;
  uint32_t hold_cap_ns = 1'000'000;
  int poll_ms = 2;            // how often the rings are drained
  bool answers = true;        // false: accepts, then says nothing
  bool stamps = true;         // false: never refreshes agent_alive_ns after the first time
  bool keeps_events = true;   // false: only counts them
  bool garbage_plan = false;  // a plan table of random bytes behind a valid header
  std::vector<orrery_plan_entry> plan;
  uint64_t lease_ns = 60'000'000'000;
};

// One flow of one process, with its counters as last seen: final once it is gone or its process is.
struct FakeFlow {
  pid_t pid = 0;
  orrery_flow_event born{};
  std::vector<orrery_qp_event> qp_events;  // QP_READY and QP_MOVED
  shm::FlowSample sample{};
  std::optional<orrery_qp_counters> qp;
  bool gone = false;
};

class FakeAgent {
 public:
  // Listens on `path`, replacing what is there. Throws std::runtime_error when it cannot.
  FakeAgent(std::string path, FakeAgentOptions options);
  ~FakeAgent();  // as if killed: connections and the listening socket go, the path stays

  std::vector<orrery_event> events() const;
  std::vector<orrery_event> events_of(uint32_t type) const;
  uint64_t count_of(uint32_t type) const;
  // Of every process that ever attached, in the order of their births.
  std::vector<FakeFlow> flows() const;
  // Of the process that attached last.
  std::optional<shm::FlowSample> flow(uint32_t slot) const;
  std::optional<orrery_qp_counters> qp(uint32_t slot, uint32_t generation) const;
  uint64_t dropped() const;
  int attachments() const;
  uint32_t layers() const;  // of the last request
  int doorbells() const;
  int hang_ups() const;
  // Replaces the plan of every attached process.
  void publish(const std::vector<orrery_plan_entry>& entries, uint64_t lease_ns);
  // False when `done` does not come true within 20 s.
  bool wait_for(const std::function<bool()>& done) const;

 private:
  struct Session;
  void serve();
  void accept_one();
  void answer(Session& session);
  bool read_doorbells(Session& session);
  void follow_flow(Session& session, const orrery_event& event);
  static void look_at_flows(const Session& session, std::vector<FakeFlow>& flows);
  void drain(Session& session);

  const std::string path_;
  const FakeAgentOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<orrery_event> events_;
  std::vector<FakeFlow> flows_;
  std::array<uint64_t, 16> counts_{};
  uint64_t dropped_ = 0;
  uint32_t layers_ = 0;
  int attachments_ = 0, doorbells_ = 0, hang_ups_ = 0;
  UniqueFd listener_, stop_read_, stop_write_;
  std::thread thread_;
};

}  // namespace orrery::fakes
