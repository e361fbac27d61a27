// Lets in only clients whose CURVE public key is in an allow-list (ZeroMQ's ZAP, RFC 27). One per Context, made before
// its sockets bind.
//
// Owns a thread; the destructor ends it and must run before the Context's.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "common/base/result.h"
#include "common/msg/socket.h"

namespace orrery::msg {

class Authenticator {
 public:
  static Result<std::unique_ptr<Authenticator>> create(Context& context,
                                                       const std::vector<std::string>& allowed_public_keys);
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  uint64_t refused() const { return refused_; }

 private:
  Authenticator(zmq::socket_t socket, std::unordered_set<std::string> allowed);
  void run();
  void answer(const std::vector<std::string>& request);

  zmq::socket_t socket_;
  const std::unordered_set<std::string> allowed_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> refused_ = 0;
  std::thread thread_;
};

}  // namespace orrery::msg
