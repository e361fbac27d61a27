// Where a socket binds or connects: ipc://PATH, tcp://HOST:PORT or inproc://NAME, checked before ZeroMQ sees it.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace orrery::msg {

enum class Transport { kIpc, kTcp, kInproc };

struct Endpoint {
  Transport transport = Transport::kIpc;
  std::string text;   // as ZeroMQ takes it
  bool local = true;  // cannot be reached from another machine: ipc, inproc, or tcp on a loopback address
};

// `key` is the configuration key the text came from; it begins the error message (kInvalidArgument).
Result<Endpoint> parse_endpoint(std::string_view key, std::string_view text);

}  // namespace orrery::msg
