#include "tests/fakes/fake_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>

#include "common/base/clock.h"

namespace orrery::fakes {

struct FakeAgent::Session {
  UniqueFd connection;
  pid_t pid = 0;
  std::map<uint32_t, size_t> live;  // slot -> index into flows_
  bool answered = false;
  std::optional<shm::AgentSegment> segment;
  std::optional<shm::PlanTable> plan;
  shm::SharedMemory garbage;
};

namespace {

constexpr uint32_t kPlanCapacity = 64;
// Ahead of the clock: that no thread of the test's got the processor for a while is not an agent's death.
constexpr uint64_t kStampAheadNs = 60'000'000'000;

shm::SharedMemory garbage_table() {
  auto memory =
      shm::SharedMemory::create("garbage-plan", shm::plan_table_bytes(kPlanCapacity), shm::PeerAccess::kReadOnly);
  std::mt19937_64 random(7);
  auto* words = static_cast<uint64_t*>(memory->data());
  for (size_t i = 0; i < memory->bytes() / 8; ++i) words[i] = random();
  auto* header = static_cast<orrery_plan_header*>(memory->data());
  header->magic = ORRERY_PLAN_MAGIC;
  header->abi_version = ORRERY_ABI_VERSION;
  header->capacity = kPlanCapacity;
  header->sequence &= ~1u;
  header->valid_until_ns = ~uint64_t{0};
  // Every second entry speaks of the peer that the tests connect to.
  const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2};
  for (uint32_t i = 0; i < kPlanCapacity; i += 2) {
    orrery_plan_entry& entry = shm::plan_entries(header)[i];
    std::memcpy(entry.remote_address, peer, 16);
    entry.protocol = 6;
    entry.ordinal = ORRERY_PLAN_ANY_ORDINAL;
  }
  return *std::move(memory);
}

void send_reply(int fd, const orrery_attach_reply& reply, int segment, int plan) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = {};
  iovec data{const_cast<orrery_attach_reply*>(&reply), sizeof(reply)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (segment >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * 2);
    const int fds[2] = {segment, plan};
    std::memcpy(CMSG_DATA(rights), fds, sizeof(fds));
  }
  sendmsg(fd, &message, MSG_NOSIGNAL);
}

}  // namespace

FakeAgent::FakeAgent(std::string path, FakeAgentOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  unlink(path_.c_str());
  listener_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  int stop[2];
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener_.get(), 16) != 0 || pipe2(stop, O_CLOEXEC) != 0)
    throw std::runtime_error("fake agent: cannot listen on " + path_ + ": " + std::strerror(errno));
  stop_read_ = UniqueFd(stop[0]);
  stop_write_ = UniqueFd(stop[1]);
  thread_ = std::thread([this] { serve(); });
}

FakeAgent::~FakeAgent() {
  stop_write_.reset();
  thread_.join();
}

void FakeAgent::serve() {
  for (;;) {
    std::vector<pollfd> waiting{{stop_read_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    {
      std::lock_guard lock(mutex_);
      for (auto& session : sessions_) waiting.push_back({session->connection.get(), POLLIN, 0});
    }
    poll(waiting.data(), waiting.size(), options_.poll_ms);
    if (waiting[0].revents != 0) return;
    std::lock_guard lock(mutex_);
    for (size_t i = sessions_.size(); i-- > 0;) {
      // In this order: whoever sees an event has heard the doorbells that rang before it.
      drain(*sessions_[i]);
      if (read_doorbells(*sessions_[i])) continue;
      drain(*sessions_[i]);
      sessions_.erase(sessions_.begin() + static_cast<long>(i));
      ++hang_ups_;
    }
    if (waiting[1].revents != 0) accept_one();
  }
}

void FakeAgent::accept_one() {
  auto session = std::make_unique<Session>();
  session->connection = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(session->connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) session->pid = peer.pid;
  if (session->connection) sessions_.push_back(std::move(session));
}

void FakeAgent::answer(Session& session) {
  session.answered = true;
  orrery_attach_reply reply{};
  reply.magic = ORRERY_ATTACH_MAGIC;
  reply.status = options_.status;
  reply.abi_version = options_.abi_version;
  if (options_.status != ORRERY_ATTACH_OK) return send_reply(session.connection.get(), reply, -1, -1);
  shm::SegmentShape shape = options_.shape;
  shape.qp_counters = options_.abi_version >= 2;
  session.segment = shm::AgentSegment::create(shape).value();
  session.segment->mark_alive(monotonic_now_ns() + (options_.stamps ? kStampAheadNs : 0));
  session.plan = shm::PlanTable::create(kPlanCapacity, options_.abi_version).value();
  if (options_.lease_ns != 0)
    (void)session.plan->publish(options_.plan,
                                {.term = 1, .revision = 1, .valid_until_ns = monotonic_now_ns() + options_.lease_ns});
  int plan = session.plan->fd();
  if (options_.garbage_plan) {
    session.garbage = garbage_table();
    plan = session.garbage.fd();
  }
  reply.segment_bytes = static_cast<uint32_t>(session.segment->bytes());
  reply.plan_bytes = static_cast<uint32_t>(session.plan->bytes());
  reply.flowlet_gap_ns = options_.flowlet_gap_ns;
  reply.hold_cap_ns = options_.hold_cap_ns;
  send_reply(session.connection.get(), reply, session.segment->fd(), plan);
  ++attachments_;
}

bool FakeAgent::read_doorbells(Session& session) {
  orrery_attach_request request;
  for (;;) {
    const ssize_t got = recv(session.connection.get(), &request, sizeof(request), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    const bool asks = !session.answered && got == sizeof(request) && request.magic == ORRERY_ATTACH_MAGIC;
    if (asks) layers_ = request.layers;
    if (asks && options_.answers)
      answer(session);
    else if (got == 1)
      ++doorbells_;
  }
}

void FakeAgent::drain(Session& session) {
  if (!session.segment) return;
  const uint64_t now = monotonic_now_ns();
  if (options_.stamps) session.segment->mark_alive(now + kStampAheadNs);
  look_at_flows(session, flows_);  // before a slot that was given up is taken again
  const auto result = session.segment->drain(1'000'000, now, [&](const orrery_event& event) {
    ++counts_[event.type % counts_.size()];
    follow_flow(session, event);
    if (options_.keeps_events) events_.push_back(event);
  });
  dropped_ += result.dropped + result.no_ring;
}

void FakeAgent::look_at_flows(const Session& session, std::vector<FakeFlow>& flows) {
  for (const auto& [slot, index] : session.live) {
    FakeFlow& flow = flows[index];
    auto sample = session.segment->read_flow(slot);
    if (!sample || sample->generation != flow.born.generation)
      sample = session.segment->read_ended_flow(slot, flow.born.generation);
    if (!sample) continue;
    flow.sample = *sample;
    flow.qp = session.segment->read_qp(slot, flow.born.generation);
  }
}

void FakeAgent::follow_flow(Session& session, const orrery_event& event) {
  if (event.type == ORRERY_EVENT_FLOW_BORN) {
    session.live[event.flow.slot] = flows_.size();
    flows_.push_back({.pid = session.pid, .born = event.flow});
    return;
  }
  const bool of_qp = event.type == ORRERY_EVENT_QP_READY || event.type == ORRERY_EVENT_QP_MOVED;
  if (!of_qp && event.type != ORRERY_EVENT_FLOW_GONE) return;
  const auto found = session.live.find(of_qp ? event.qp.slot : event.flow.slot);
  if (found == session.live.end()) return;
  if (of_qp) {
    flows_[found->second].qp_events.push_back(event.qp);
    return;
  }
  look_at_flows(session, flows_);
  flows_[found->second].gone = true;
  session.live.erase(found);
}

std::vector<FakeFlow> FakeAgent::flows() const {
  std::lock_guard lock(mutex_);
  auto flows = flows_;
  for (const auto& session : sessions_) look_at_flows(*session, flows);
  return flows;
}

std::vector<orrery_event> FakeAgent::events() const {
  std::lock_guard lock(mutex_);
  return events_;
}

std::vector<orrery_event> FakeAgent::events_of(uint32_t type) const {
  std::vector<orrery_event> chosen;
  for (const orrery_event& event : events())
    if (event.type == type) chosen.push_back(event);
  return chosen;
}

uint64_t FakeAgent::count_of(uint32_t type) const {
  std::lock_guard lock(mutex_);
  return counts_[type % counts_.size()];
}

std::optional<shm::FlowSample> FakeAgent::flow(uint32_t slot) const {
  std::lock_guard lock(mutex_);
  for (size_t i = sessions_.size(); i-- > 0;)
    if (sessions_[i]->segment) return sessions_[i]->segment->read_flow(slot);
  return std::nullopt;
}

std::optional<orrery_qp_counters> FakeAgent::qp(uint32_t slot, uint32_t generation) const {
  std::lock_guard lock(mutex_);
  for (size_t i = sessions_.size(); i-- > 0;)
    if (sessions_[i]->segment) return sessions_[i]->segment->read_qp(slot, generation);
  return std::nullopt;
}

uint64_t FakeAgent::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

int FakeAgent::attachments() const {
  std::lock_guard lock(mutex_);
  return attachments_;
}

uint32_t FakeAgent::layers() const {
  std::lock_guard lock(mutex_);
  return layers_;
}

int FakeAgent::doorbells() const {
  std::lock_guard lock(mutex_);
  return doorbells_;
}

int FakeAgent::hang_ups() const {
  std::lock_guard lock(mutex_);
  return hang_ups_;
}

void FakeAgent::publish(const std::vector<orrery_plan_entry>& entries, uint64_t lease_ns) {
  std::lock_guard lock(mutex_);
  for (auto& session : sessions_)
    if (session->plan)
      (void)session->plan->publish(entries,
                                   {.term = 1, .revision = 2, .valid_until_ns = monotonic_now_ns() + lease_ns});
}

bool FakeAgent::wait_for(const std::function<bool()>& done) const {
  for (int i = 0; i < 4000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace orrery::fakes
