#include "common/msg/endpoint.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <charconv>
#include <optional>

#include "common/base/ip_address.h"

namespace orrery::msg {
namespace {

Error invalid(std::string_view key, std::string_view text, std::string_view what) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: '{}' {}; write ipc:///run/orrery/NAME.sock or tcp://ADDRESS:PORT", key, text, what)};
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  const auto address = IpAddress::parse(host);
  return address && address->v4() && (*address->v4() >> 24) == 127;
}

Result<Endpoint> parse_tcp(std::string_view key, std::string_view text, std::string_view rest) {
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return invalid(key, text, "has no port");
  const std::string_view host = rest.substr(0, colon);
  const std::string_view port_text = rest.substr(colon + 1);
  uint16_t port = 0;
  const auto parsed = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (port_text != "*" && (parsed.ec != std::errc() || parsed.ptr != port_text.data() + port_text.size() || port == 0))
    return invalid(key, text, "has no port between 1 and 65535");
  return Endpoint{Transport::kTcp, std::string(text), is_loopback(host)};
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view key, std::string_view text) {
  const auto after = [text](std::string_view scheme) -> std::optional<std::string_view> {
    if (!text.starts_with(scheme)) return std::nullopt;
    return text.substr(scheme.size());
  };
  if (text.find('\0') != std::string_view::npos || text.size() > 512)
    return invalid(key, text.substr(0, 64), "is not an endpoint");
  if (const auto path = after("ipc://")) {
    if (path->empty()) return invalid(key, text, "has no path");
    if (path->size() >= sizeof(sockaddr_un::sun_path))
      return invalid(
          key, text,
          fmt::format("has a path longer than the {} characters a socket can have", sizeof(sockaddr_un::sun_path) - 1));
    return Endpoint{Transport::kIpc, std::string(text), true};
  }
  if (const auto rest = after("tcp://")) return parse_tcp(key, text, *rest);
  if (const auto name = after("inproc://")) {
    if (name->empty()) return invalid(key, text, "has no name");
    return Endpoint{Transport::kInproc, std::string(text), true};
  }
  return invalid(key, text, "names no known transport");
}

}  // namespace orrery::msg
