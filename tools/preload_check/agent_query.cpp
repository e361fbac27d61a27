#include "tools/preload_check/agent_query.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/abi/attach_abi.h"
#include "common/base/unique_fd.h"

namespace orrery::preload_check {
namespace {

Agent failed(Agent agent, AgentState state, const std::string& why) {
  agent.state = state;
  agent.why = agent.socket + ": " + why;
  return agent;
}

Agent judge(Agent agent, const orrery_attach_reply& reply) {
  switch (reply.status) {
    case ORRERY_ATTACH_OK:
      agent.abi_version = reply.abi_version;
      if (reply.abi_version < ORRERY_ABI_OLDEST || reply.abi_version > ORRERY_ABI_VERSION)
        return failed(agent, AgentState::kRefuses, "the agent speaks another version; upgrade the older side");
      agent.state = AgentState::kAnswers;
      return agent;
    case ORRERY_ATTACH_VERSION:
      return failed(agent, AgentState::kRefuses, "the agent speaks another version; upgrade the older side");
    case ORRERY_ATTACH_FULL:
      return failed(agent, AgentState::kRefuses, "the agent serves as many processes as it may");
    default:
      return failed(agent, AgentState::kRefuses, "the agent refuses this process");
  }
}

}  // namespace

Agent query_agent(std::string socket_path) {
  Agent agent;
  agent.socket = socket_path.empty() ? ORRERY_AGENT_SOCKET_DEFAULT : std::move(socket_path);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (agent.socket.size() >= sizeof(address.sun_path))
    return failed(agent, AgentState::kBadPath, "too long for a socket's path");
  std::memcpy(address.sun_path, agent.socket.c_str(), agent.socket.size() + 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return failed(agent, AgentState::kDenied, std::string("socket(AF_UNIX): ") + std::strerror(errno));
  const timeval patience{2, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const bool denied = errno == EACCES || errno == EPERM;
    return failed(agent, denied ? AgentState::kDenied : AgentState::kAbsent, std::strerror(errno));
  }
  orrery_attach_request request{};
  request.magic = ORRERY_ATTACH_MAGIC;
  request.abi_version = ORRERY_ABI_VERSION;
  request.abi_oldest = ORRERY_ABI_OLDEST;
  request.pid = static_cast<orrery_u32>(getpid());
  std::strcpy(request.program, "orrery-preload-check");
  if (send(fd.get(), &request, sizeof(request), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(request)))
    return failed(agent, AgentState::kAbsent, std::strerror(errno));
  orrery_attach_reply reply{};
  const ssize_t got = recv(fd.get(), &reply, sizeof(reply), 0);  // the descriptors that come with it are dropped
  if (got < 0) return failed(agent, AgentState::kSilent, "the agent does not answer");
  if (got != static_cast<ssize_t>(sizeof(reply)) || reply.magic != ORRERY_ATTACH_MAGIC)
    return failed(agent, AgentState::kStranger, "its answer is not understood; is that the agent's socket?");
  return judge(agent, reply);
}

}  // namespace orrery::preload_check
