// The library's side of the attach handshake (common/abi/attach_abi.h), for tests of the agent.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "common/abi/attach_abi.h"
#include "common/base/unique_fd.h"

namespace orrery::test {

class AttachClient {
 public:
  struct Received {
    bool closed = true;  // nothing came but the end of the connection
    orrery_attach_reply reply{};
    UniqueFd segment, plan;
  };

  // Connected, or not when nobody listens.
  explicit AttachClient(const std::string& path) : connection_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    connected_ = connect(connection_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  bool connected() const { return connected_; }

  static orrery_attach_request request() {
    orrery_attach_request request{};
    request.magic = ORRERY_ATTACH_MAGIC;
    request.abi_version = ORRERY_ABI_VERSION;
    request.abi_oldest = ORRERY_ABI_VERSION;
    request.layers = ORRERY_LAYER_NCCL | ORRERY_LAYER_SOCKETS;
    std::strcpy(request.program, "test");
    return request;
  }
  bool send(const void* bytes, size_t size) {
    return ::send(connection_.get(), bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  bool ring() { return ::send(connection_.get(), "!", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1; }

  // Waits at most `timeout_ms`.
  Received receive(int timeout_ms = 10000) {
    Received received;
    pollfd waiting{connection_.get(), POLLIN, 0};
    if (poll(&waiting, 1, timeout_ms) != 1) return received;
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    iovec part{&received.reply, sizeof received.reply};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    received.closed =
        recvmsg(connection_.get(), &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof received.reply);
    if (const cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr && head->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
      int descriptors[2];
      std::memcpy(descriptors, CMSG_DATA(head), sizeof descriptors);
      received.segment.reset(descriptors[0]);
      received.plan.reset(descriptors[1]);
    }
    return received;
  }
  Received attach() {
    const auto wanted = request();
    return send(&wanted, sizeof wanted) ? receive() : Received{};
  }

 private:
  UniqueFd connection_;
  bool connected_ = false;
};

}  // namespace orrery::test
