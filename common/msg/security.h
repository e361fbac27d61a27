// CURVE keys and the rule when a socket may go without them.
//
// A key file holds "public-key: Z85" and, for one's own pair, "secret-key: Z85"; '#' begins a comment. An allow-list
// holds one public key per line, followed by a name for people: "Z85  h1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/msg/endpoint.h"

namespace orrery::msg {

struct CurveKeys {
  std::string public_key;  // Z85, 40 characters
  std::string secret_key;  // empty where only the public half is known
};

struct Security {
  bool curve = false;
  bool allow_plain = false;       // plain sockets on endpoints that other machines can reach, by explicit setting
  CurveKeys own;                  // with curve
  std::string server_public_key;  // with curve, for sockets that connect
};

// What a daemon or the CLI has in its configuration: paths, empty when not set.
struct SecuritySettings {
  std::string mode = "plain";  // "plain" or "curve"
  bool allow_plain = false;
  std::string key_file;         // own pair
  std::string server_key_file;  // the controller's public key; for clients
};

Result<CurveKeys> generate_keys();
// Writes `path` (mode 0600) and `path`.pub (0644). Errors: kRefused, one of them exists already; kSystem.
Status write_key_files(const std::string& path, const CurveKeys& keys);
// Errors name the file, and the line where one is wrong. A file with a secret that others may read is refused.
Result<CurveKeys> read_key_file(const std::string& path);
Result<std::vector<std::string>> read_allow_list(const std::string& path);
Result<Security> load_security(const SecuritySettings& settings);

// kRefused, with the cure, for plain on an endpoint other machines can reach without `allow_plain`.
Status check_security(std::string_view key, const Endpoint& endpoint, const Security& security);

}  // namespace orrery::msg
