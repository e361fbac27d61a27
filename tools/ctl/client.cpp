#include "tools/ctl/client.h"

#include <fmt/format.h>

#include <cmath>

namespace orrery::ctl {
namespace {

std::string_view subject_of(msg::Request::Kind kind) {
  using Kind = msg::Request::Kind;
  switch (kind) {
    case Kind::kPlanList:
      return "what plan is in force";
    case Kind::kFlowExplain:
      return "why flows go where they go";
    case Kind::kLinkList:
      return "its links";
    case Kind::kJobList:
      return "its communicators";
    case Kind::kHostList:
      return "its hosts";
    case Kind::kSwitchList:
      return "its switches";
    case Kind::kHealth:
      return "whether all is well";
    case Kind::kForecastList:
      return "what communicators do next";
    case Kind::kFlowList:
      return "the connections and queue pairs that exist";
    case Kind::kNicForecasts:
      return "what NICs send beside a simulation's prediction";
  }
  return "that";
}

}  // namespace

Client::Client(std::string endpoint, int timeout_ms, msg::Security security)
    : context_(std::make_unique<msg::Context>()),
      endpoint_(std::move(endpoint)),
      timeout_ms_(timeout_ms),
      security_(std::move(security)) {}

Result<Client> Client::create(const GlobalOptions& options) {
  msg::Security security;
  if (options.key_file.empty() != options.server_key_file.empty())
    return Error{ErrorCode::kInvalidArgument, "--key-file and --server-key-file go together: give both, or neither"};
  if (!options.key_file.empty()) {
    msg::SecuritySettings settings;
    settings.mode = "curve";
    settings.key_file = options.key_file;
    settings.server_key_file = options.server_key_file;
    ORRERY_ASSIGN(security, msg::load_security(settings));
  }
  return Client(options.controller, static_cast<int>(std::lround(options.timeout_s * 1000)), std::move(security));
}

Result<msg::Response> Client::ask(const msg::Request& request) {
  ORRERY_ASSIGN(const std::string body, msg::encode(request));
  ORRERY_ASSIGN(const std::string answer, msg::ask(*context_, "--controller", endpoint_, security_, body, timeout_ms_));
  ORRERY_ASSIGN(msg::Response response, msg::decode_response(answer));
  const auto* error = std::get_if<msg::RequestError>(&response);
  if (error == nullptr) return response;
  if (!error->is_unknown_kind()) return Error{ErrorCode::kRefused, error->message};
  return Error{ErrorCode::kNotFound,
               fmt::format("the controller does not know {}, as it is older than this orreryctl ({}); upgrade "
                           "orrery-controller to that version",
                           subject_of(request.kind), ORRERY_VERSION)};
}

Error Client::wrong_kind() {
  return {ErrorCode::kCorrupt,
          "the controller answered another question; use the orreryctl of the controller's version"};
}

}  // namespace orrery::ctl
