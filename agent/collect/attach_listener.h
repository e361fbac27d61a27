// The socket training processes attach to (common/abi/attach_abi.h): listens, greets, and hands out descriptors.
// SOCK_SEQPACKET, nothing blocks. A connection that has not sent its request within a second is closed; at most
// kPendingLimit wait at one time, and the oldest of them gives way to a new one: processes send their request right
// after connecting, so those that wait are not to keep others out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/abi/attach_abi.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace orrery::collect {

// Who is at the other end, as the kernel says.
struct Peer {
  pid_t pid = 0;  // in the agent's pid namespace, 0 when it cannot be seen from there
  uid_t uid = 0;
  std::string program;  // as the process calls itself, printable characters only
  uint32_t layers = 0;
  uint32_t abi_version = 0;  // both speak it
};

struct AttachRequest {
  UniqueFd connection;
  Peer peer;
};

class AttachListener {
 public:
  static constexpr size_t kPendingLimit = 64;

  // Errors: kRefused, another agent listens at `path`; kSystem otherwise. A socket file that nobody listens at is
  // replaced. The file gets `mode`; it is removed by the destructor.
  static Result<AttachListener> create(const std::string& path, mode_t mode);
  AttachListener(AttachListener&& other) noexcept;
  AttachListener& operator=(AttachListener&&) = delete;
  ~AttachListener();

  int fd() const { return listener_.get(); }
  // Accepts what waits, at most kPendingLimit of it; returns the descriptors to watch for their request.
  std::vector<int> accept_pending(uint64_t now_ns);
  // Whether the last accept_pending() found the agent out of descriptors or memory. The listener stays readable then,
  // and is not to be watched for a while.
  bool starved() const { return starved_; }
  // The request of a pending connection, when it is a good one. Otherwise the connection is answered and closed, or
  // still waits.
  struct Answer {
    std::optional<AttachRequest> request;
    bool closed = false;
    std::string refusal;  // why, for the log
  };
  Answer read_request(int fd);
  bool is_pending(int fd) const;
  void drop(int fd);
  // Closes what has waited too long; returns how many.
  size_t expire(uint64_t now_ns);

 private:
  AttachListener(UniqueFd listener, std::string path) : listener_(std::move(listener)), path_(std::move(path)) {}

  struct Pending {
    UniqueFd connection;
    uint64_t since_ns = 0;
  };
  UniqueFd listener_;
  std::string path_;
  std::vector<Pending> pending_;  // the oldest first
  bool starved_ = false;
};

// Answers with the descriptors; kUnavailable when the process has gone meanwhile.
Status send_reply(int connection, const orrery_attach_reply& reply, int segment_fd, int plan_fd);
void send_refusal(int connection, orrery_attach_status status);

}  // namespace orrery::collect
