// orreryctl plan|flow|link|job|host|switch|forecast|health: one question to the controller, shown as text or JSON.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <ostream>

#include "common/base/clock.h"
#include "tools/ctl/client.h"
#include "tools/ctl/command.h"
#include "tools/ctl/render.h"

namespace orrery::ctl {
namespace {

using Kind = msg::Request::Kind;

template <typename T>
Result<T> fetch(Session& session, Kind kind, uint64_t flow_id) {
  ORRERY_ASSIGN(Client client, Client::create(session.global));
  return client.query<T>(kind, flow_id);
}

template <typename T>
int show(Session& session, Kind kind, bool json, uint64_t flow_id = 0) {
  const Result<T> answer = fetch<T>(session, kind, flow_id);
  if (!answer) return report(session.console, answer.error());
  const Style style{session.console.colour, tai_now_ns()};
  session.console.out << (json ? json_text(json_of(*answer)) : text_of(*answer, style));
  return kOk;
}

int show_health(Session& session, bool json) {
  const Result<msg::Health> health = fetch<msg::Health>(session, Kind::kHealth, 0);
  if (!health) return report(session.console, health.error());
  const Style style{session.console.colour, tai_now_ns()};
  session.console.out << (json ? json_text(json_of(*health)) : text_of(*health, style));
  return health->problems.empty() ? kOk : kFailed;
}

// What communicators will do next, and what a simulation said that NICs would. An older controller knows the first
// only.
int list_forecasts(Session& session, bool json) {
  auto client = Client::create(session.global);
  if (!client) return report(session.console, client.error());
  const auto forecasts = client->query<std::vector<msg::ForecastState>>(Kind::kForecastList);
  if (!forecasts) return report(session.console, forecasts.error());
  const auto nics = client->query<msg::NicForecasts>(Kind::kNicForecasts);
  if (!nics && nics.error().code != ErrorCode::kNotFound) return report(session.console, nics.error());
  const Style style{session.console.colour, tai_now_ns()};
  if (json) {
    Json all = json_of(*forecasts);
    if (nics) all.update(json_of(*nics));
    session.console.out << json_text(all);
  } else {
    session.console.out << text_of(*forecasts, style);
    if (nics) session.console.out << "\n" << text_of(*nics, style);
  }
  return nics ? static_cast<int>(kOk) : report(session.console, nics.error());
}

// Decimal or 0x..., as id_text() prints them.
std::optional<uint64_t> parse_id(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  uint64_t id = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), id, hex ? 16 : 10);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return id;
}

int explain_flow(Session& session, const std::string& text, bool json) {
  const std::optional<uint64_t> id = parse_id(text);
  if (id) return show<msg::FlowExplanation>(session, Kind::kFlowExplain, json, *id);
  return report(session.console,
                {ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is not a flow id; take one from the FLOW column of 'orreryctl plan list'", text)});
}

// `orreryctl NOUN list`.
template <typename T>
void add_list(Session& session, CLI::App& noun, Kind kind, const std::string& help) {
  CLI::App* list = noun.add_subcommand("list", help);
  auto json = add_json_flag(*list);
  list->callback(
      [&session, kind, json] { session.action = [&session, kind, json] { return show<T>(session, kind, *json); }; });
}

template <typename T>
void add_noun_with_list(Session& session, const std::string& noun, const std::string& noun_help, Kind kind,
                        const std::string& help) {
  CLI::App* app = session.app.add_subcommand(noun, noun_help);
  app->require_subcommand(1);
  add_list<T>(session, *app, kind, help);
}

void add_flow(Session& session) {
  CLI::App* flow =
      session.app.add_subcommand("flow", "Flows: connections and queue pairs, and why they go where they go");
  flow->require_subcommand(1);
  add_list<msg::FlowList>(session, *flow, Kind::kFlowList,
                          "List the connections and RDMA queue pairs that exist, with path, moves and deferred sends");
  CLI::App* explain =
      flow->add_subcommand("explain", "Why a flow goes where it goes: demand, alternatives, what decides at each hop");
  auto id = std::make_shared<std::string>();
  explain->add_option("ID", *id, "Flow id, from 'orreryctl plan list'")->required();
  auto json = add_json_flag(*explain);
  explain->callback(
      [&session, id, json] { session.action = [&session, id, json] { return explain_flow(session, *id, *json); }; });
}

}  // namespace

std::shared_ptr<bool> add_json_flag(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print JSON for programs");
  return json;
}

void add_live_commands(Session& session, CLI::App& plan) {
  add_list<msg::PlanList>(session, plan, Kind::kPlanList,
                          "List the flows of the plan in force, with path, backup, offset and state");
  add_flow(session);
  add_noun_with_list<std::vector<msg::LinkState>>(session, "link", "Links of the fabric", Kind::kLinkList,
                                                  "List every link with load, planned bytes, drops and queue");
  add_noun_with_list<std::vector<msg::JobState>>(session, "job", "Jobs that the controller sees", Kind::kJobList,
                                                 "List the communicators with ranks, hosts, collectives and plan hits");
  add_noun_with_list<std::vector<msg::HostState>>(session, "host", "Hosts and their agents", Kind::kHostList,
                                                  "List the hosts with agent, plan, losses and clock");
  add_noun_with_list<std::vector<msg::SwitchState>>(session, "switch", "Switches and their agents", Kind::kSwitchList,
                                                    "List the switches with rules and ports");
  CLI::App* forecast = session.app.add_subcommand("forecast", "What comes next");
  forecast->require_subcommand(1);
  CLI::App* list = forecast->add_subcommand(
      "list",
      "List the next operation of every communicator and how often forecasts held; and what each NIC sends beside what "
      "a simulation predicted");
  auto list_json = add_json_flag(*list);
  list->callback([&session, list_json] {
    session.action = [&session, list_json] { return list_forecasts(session, *list_json); };
  });
  CLI::App* health =
      session.app.add_subcommand("health", "Say whether all is well; exits with 1 when something is not");
  auto json = add_json_flag(*health);
  health->callback([&session, json] { session.action = [&session, json] { return show_health(session, *json); }; });
}

}  // namespace orrery::ctl
