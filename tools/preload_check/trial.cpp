#include "tools/preload_check/trial.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "common/abi/attach_abi.h"
#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/shm/agent_segment.h"
#include "common/shm/plan_table.h"

namespace orrery::preload_check {
namespace {

constexpr uint32_t kPlanCapacity = 1;
constexpr size_t kEventsPerTurn = 1'000'000;
constexpr uint32_t kFlowletGapNs = 100'000, kHoldCapNs = 1'000'000;  // the agent's defaults; without a plan unused

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "orrery-preload-check-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class TrialAgent {
 public:
  Status listen_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
      return Error{ErrorCode::kInvalidArgument, path + ": too long for a socket"};
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener_ || bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0)
      return system_error(path, errno);
    return {};
  }

  // One turn of at most 20 ms. `other` becomes readable when there is something else to do.
  void serve(int other) {
    std::vector<pollfd> waiting{{other, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& session : sessions_) waiting.push_back({session->connection.get(), POLLIN, 0});
    poll(waiting.data(), waiting.size(), 20);
    for (size_t i = sessions_.size(); i-- > 0;) {
      const bool open = waiting[i + 2].revents == 0 || take_messages(*sessions_[i]);
      drain(*sessions_[i]);
      if (!open) end(i);
    }
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      sessions_.push_back(std::make_unique<Session>());
      sessions_.back()->connection = std::move(connection);
    }
  }

  std::vector<TrialProcess> finish() {
    while (!sessions_.empty()) {
      drain(*sessions_.back());
      end(sessions_.size() - 1);
    }
    return std::move(processes_);
  }

 private:
  struct Session {
    UniqueFd connection;
    std::optional<shm::AgentSegment> segment;
    std::optional<shm::PlanTable> plan;
    TrialProcess seen;
  };

  static void reply_to(Session& session, const orrery_attach_request& request) {
    const uint32_t version = std::min<uint32_t>(request.abi_version, ORRERY_ABI_VERSION);
    shm::SegmentShape shape;
    shape.qp_counters = version >= 2;
    auto segment = shm::AgentSegment::create(shape);
    auto plan = shm::PlanTable::create(kPlanCapacity, version);
    orrery_attach_reply reply{};
    reply.magic = ORRERY_ATTACH_MAGIC;
    reply.status = segment && plan ? ORRERY_ATTACH_OK : ORRERY_ATTACH_REFUSED;
    reply.abi_version = version;
    if (reply.status != ORRERY_ATTACH_OK) {
      send(session.connection.get(), &reply, sizeof(reply), MSG_NOSIGNAL);
      return;
    }
    session.segment = *std::move(segment);
    session.plan = *std::move(plan);
    session.segment->mark_alive(monotonic_now_ns());
    reply.segment_bytes = static_cast<uint32_t>(session.segment->bytes());
    reply.plan_bytes = static_cast<uint32_t>(session.plan->bytes());
    reply.flowlet_gap_ns = kFlowletGapNs;
    reply.hold_cap_ns = kHoldCapNs;
    send_with_memory(session, reply);
    session.seen.pid = static_cast<int>(request.pid);
    session.seen.name.assign(request.program, strnlen(request.program, sizeof(request.program)));
    session.seen.layers = request.layers;
  }

  static void send_with_memory(const Session& session, orrery_attach_reply reply) {
    const int fds[] = {session.segment->fd(), session.plan->fd()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds))] = {};
    iovec data{&reply, sizeof(reply)};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(fds));
    std::memcpy(CMSG_DATA(part), fds, sizeof(fds));
    sendmsg(session.connection.get(), &message, MSG_NOSIGNAL);
  }

  // False when the process has hung up.
  static bool take_messages(Session& session) {
    for (;;) {
      orrery_attach_request request{};
      const ssize_t got = recv(session.connection.get(), &request, sizeof(request), MSG_DONTWAIT);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      if (got == 0) return false;
      if (!session.segment && got == static_cast<ssize_t>(sizeof(request)) && request.magic == ORRERY_ATTACH_MAGIC)
        reply_to(session, request);
    }
  }

  static void drain(Session& session) {
    if (!session.segment) return;
    const uint64_t now = monotonic_now_ns();
    session.segment->mark_alive(now);
    TrialProcess& seen = session.seen;
    const auto result = session.segment->drain(kEventsPerTurn, now, [&](const orrery_event& event) {
      seen.communicators += event.type == ORRERY_EVENT_COMM_INIT;
      seen.collectives += event.type == ORRERY_EVENT_COLLECTIVE;
      seen.connections += event.type == ORRERY_EVENT_FLOW_BORN && event.flow.protocol == IPPROTO_TCP;
      seen.queue_pairs += event.type == ORRERY_EVENT_FLOW_BORN && event.flow.protocol == IPPROTO_UDP;
    });
    seen.lost_events += result.dropped + result.no_ring;
  }

  void end(size_t index) {
    if (sessions_[index]->segment) processes_.push_back(sessions_[index]->seen);
    sessions_.erase(sessions_.begin() + static_cast<long>(index));
  }

  UniqueFd listener_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<TrialProcess> processes_;
};

[[noreturn]] void become(const std::string& library, const std::string& socket_path,
                         const std::vector<std::string>& command) {
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::string preload = library;
  if (const char* others = std::getenv("LD_PRELOAD"); others != nullptr && *others != '\0') {
    // A sanitizer's library must stay first; whatever names us already is enough.
    const std::string set = others;
    preload = set.find(library) != std::string::npos ? set : set + ":" + library;
  }
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("ORRERY_AGENT_SOCKET", socket_path.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

Result<Trial> run_trial(const std::string& library, const std::vector<std::string>& command) {
  const ScratchFolder folder;
  if (folder.path().empty()) return system_error("a scratch folder", errno);
  const std::string socket_path = folder.path() + "/agent.sock";
  TrialAgent agent;
  ORRERY_TRY(agent.listen_at(socket_path));
  const pid_t child = fork();
  if (child < 0) return system_error("fork", errno);
  if (child == 0) become(library, socket_path, command);
  const UniqueFd ended(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  Trial trial{.ran = true};
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) agent.serve(ended.get());
  trial.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  agent.serve(-1);
  trial.processes = agent.finish();
  return trial;
}

}  // namespace orrery::preload_check
