// Notices ranks that die: a star of idle TCP connections to rank 0. A rank that leaves in good order says goodbye; one
// whose connection ends without is lost, and rank 0 tells the others. Owned and used by the proxy thread alone.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/lab/hostnccl/bootstrap.h"
#include "tools/lab/hostnccl/socket.h"

namespace orrery::hostnccl {

class PeerMonitor {
 public:
  // `listener`: rank 0's monitor socket (others pass an empty one). Connecting goes on in the background.
  PeerMonitor(int rank, const PeerTable& table, UniqueFd listener, std::chrono::seconds peer_timeout);

  // Appends what to wait for; handle() takes the same entries after the wait.
  void collect(std::vector<pollfd>& fds);
  void handle(const std::vector<pollfd>& fds);

  // The first rank known to be lost.
  std::optional<int> lost_rank() const { return lost_; }
  // Tells the others that `rank` is the reason why this one fails.
  void announce_lost(int rank);
  void say_goodbye();

 private:
  struct Message {
    uint32_t magic = 0;
    uint16_t type = 0;
    uint16_t reserved = 0;
    int32_t rank = 0;
  };
  static_assert(sizeof(Message) == 12);
  struct Member {
    UniqueFd fd;
    int rank = -1;  // rank 0's accepted connections: unknown until their first message
    bool said_goodbye = false;
    Message partial;
    size_t have = 0;
  };

  void send_message(Member& member, uint16_t type, int rank);
  void read_member(Member& member);
  void take_message(Member& member);
  void note_lost(int rank);

  const int rank_;
  const int nranks_;
  const UniqueFd listener_;
  const std::chrono::seconds peer_timeout_;
  std::vector<Member> members_;  // rank 0: one for each other rank; others: rank 0
  std::optional<int> lost_;
  size_t first_poll_ = 0;
  size_t polled_members_ = 0;
};

}  // namespace orrery::hostnccl
