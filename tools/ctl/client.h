// Questions to the controller's control socket, each with an answer or an error within the timeout.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "common/msg/control_messages.h"
#include "common/msg/socket.h"
#include "tools/ctl/command.h"

namespace orrery::ctl {

// Used by one thread. Errors of ask() and query(): kUnavailable, nobody answered in time; kNotFound, the
// controller is older than the question; kRefused, it answered that it cannot (its words); kCorrupt, it answered
// something else; kInvalidArgument, the endpoint or a key file is wrong.
class Client {
 public:
  static Result<Client> create(const GlobalOptions& options);

  Result<msg::Response> ask(const msg::Request& request);

  template <typename T>
  Result<T> query(msg::Request::Kind kind, uint64_t flow_id = 0) {
    ORRERY_ASSIGN(msg::Response response, ask({kind, flow_id}));
    if (T* answer = std::get_if<T>(&response)) return std::move(*answer);
    return wrong_kind();
  }

 private:
  Client(std::string endpoint, int timeout_ms, msg::Security security);
  static Error wrong_kind();

  std::unique_ptr<msg::Context> context_;
  std::string endpoint_;
  int timeout_ms_;
  msg::Security security_;
};

}  // namespace orrery::ctl
