#include "common/msg/security.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "common/base/nearest_name.h"
#include "common/base/unique_fd.h"

namespace orrery::msg {
namespace {

constexpr size_t kZ85KeyLength = 40;

bool is_z85_key(const std::string& text) {
  std::array<uint8_t, 32> raw{};
  return text.size() == kZ85KeyLength && zmq_z85_decode(raw.data(), text.c_str()) != nullptr;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

Error wrong_line(const std::string& path, size_t line, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", path, line, what)};
}

// Calls `use` with the number and text of each line that is neither empty nor a comment. '#' is a Z85 digit: only a
// line's first character makes a comment.
template <typename Use>
Status for_each_line(const std::string& path, Use&& use) {
  std::ifstream file(path);
  if (!file) return system_error("read " + path, errno);
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    const std::string text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    ORRERY_TRY(use(number, text));
  }
  return {};
}

Status write_file(const std::string& path, mode_t mode, const std::string& content) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) {
    if (errno == EEXIST)
      return Error{ErrorCode::kRefused, fmt::format("{} exists; choose another name or remove it first", path)};
    return system_error("create " + path, errno);
  }
  if (::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()))
    return system_error("write " + path, errno);
  return {};
}

}  // namespace

Result<CurveKeys> generate_keys() {
  std::array<char, kZ85KeyLength + 1> public_key{}, secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0)
    return Error{ErrorCode::kUnavailable, "this libzmq was built without CURVE; install one built with libsodium"};
  return CurveKeys{public_key.data(), secret_key.data()};
}

Status write_key_files(const std::string& path, const CurveKeys& keys) {
  const std::string public_line = fmt::format("public-key: {}\n", keys.public_key);
  ORRERY_TRY(write_file(path, 0600, public_line + fmt::format("secret-key: {}\n", keys.secret_key)));
  return write_file(path + ".pub", 0644, public_line);
}

Result<CurveKeys> read_key_file(const std::string& path) {
  CurveKeys keys;
  ORRERY_TRY(for_each_line(path, [&](size_t number, const std::string& line) -> Status {
    const size_t colon = line.find(':');
    const std::string name = trimmed(std::string_view(line).substr(0, colon));
    const std::string value = colon == std::string::npos ? "" : trimmed(std::string_view(line).substr(colon + 1));
    if (name != "public-key" && name != "secret-key")
      return wrong_line(path, number, "only 'public-key:' and 'secret-key:' are known here");
    if (!is_z85_key(value)) return wrong_line(path, number, fmt::format("{} is not a Z85 key of 40 characters", name));
    (name == "public-key" ? keys.public_key : keys.secret_key) = value;
    return {};
  }));
  if (keys.public_key.empty())
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} has no 'public-key:' line; make a pair with 'orreryctl key generate'", path)};
  struct stat status {};
  if (!keys.secret_key.empty() && ::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
    return Error{ErrorCode::kRefused,
                 fmt::format("{} holds a secret key that others may read; chmod 600 {}", path, path)};
  return keys;
}

Result<std::vector<std::string>> read_allow_list(const std::string& path) {
  std::vector<std::string> keys;
  ORRERY_TRY(for_each_line(path, [&](size_t number, const std::string& line) -> Status {
    const std::string key = line.substr(0, line.find_first_of(" \t"));
    if (!is_z85_key(key)) return wrong_line(path, number, "does not begin with a Z85 public key of 40 characters");
    keys.push_back(key);
    return {};
  }));
  return keys;
}

Result<Security> load_security(const SecuritySettings& settings) {
  static constexpr std::array<std::string_view, 2> kModes = {"plain", "curve"};
  Security security;
  security.allow_plain = settings.allow_plain;
  if (settings.mode == "plain") return security;
  if (settings.mode != "curve")
    return Error{ErrorCode::kInvalidArgument, fmt::format("security.mode: '{}' is neither plain nor curve{}",
                                                          settings.mode, did_you_mean(settings.mode, kModes))};
  if (settings.key_file.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "security.key_file: needed with security.mode curve; make a pair with 'orreryctl key generate'"};
  security.curve = true;
  ORRERY_ASSIGN(security.own, read_key_file(settings.key_file));
  if (security.own.secret_key.empty())
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("security.key_file: {} has no secret key; name the file without .pub", settings.key_file)};
  if (!settings.server_key_file.empty()) {
    ORRERY_ASSIGN(const CurveKeys server, read_key_file(settings.server_key_file));
    security.server_public_key = server.public_key;
  }
  return security;
}

Status check_security(std::string_view key, const Endpoint& endpoint, const Security& security) {
  if (endpoint.local || security.curve || security.allow_plain) return {};
  return Error{
      ErrorCode::kRefused,
      fmt::format("{}: '{}' can be reached from other machines and has no encryption; set security.mode to curve with "
                  "security.key_file (made by 'orreryctl key generate'), or set security.allow_plain to true on a "
                  "network you trust",
                  key, endpoint.text)};
}

}  // namespace orrery::msg
