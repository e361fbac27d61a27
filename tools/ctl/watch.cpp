#include "tools/ctl/watch.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <ostream>
#include <thread>

#include "common/base/clock.h"
#include "tools/ctl/client.h"
#include "tools/ctl/command.h"
#include "tools/ctl/ranges.h"
#include "tools/ctl/table.h"

namespace orrery::ctl {
namespace {

using Kind = msg::Request::Kind;

struct WatchOptions {
  double interval_s = 1.0;
  uint64_t count = 0;  // 0: until interrupted
  bool json = false;
};

std::vector<msg::LinkState> busiest(std::vector<msg::LinkState> links, size_t most) {
  std::stable_sort(links.begin(), links.end(), [](const auto& a, const auto& b) {
    return std::pair(a.utilization, a.planned_bytes) > std::pair(b.utilization, b.planned_bytes);
  });
  links.resize(std::min(links.size(), most));
  return links;
}

// Cuts to `width` columns, leaving escape sequences whole and ending them.
std::string cut_line(const std::string& line, size_t width) {
  std::string out;
  size_t column = 0;
  bool escaped = false, coloured = false;
  for (char c : line) {
    if (c == '\x1b') escaped = coloured = true;
    if (!escaped && (c & 0xc0) != 0x80 && ++column > width) break;
    out += c;
    if (escaped && c == 'm') escaped = false;
  }
  return coloured ? out + "\x1b[0m" : out;
}

std::string fitted(const std::string& text, int width, int height) {
  std::string out;
  size_t start = 0;
  for (int row = 0; row < height && start < text.size(); ++row) {
    const size_t end = std::min(text.find('\n', start), text.size());
    out += cut_line(text.substr(start, end - start), static_cast<size_t>(std::max(width, 1))) + "\n";
    start = end + 1;
  }
  return out;
}

std::string link_bars(const Snapshot& snapshot, const Style& style, size_t rows, size_t bar_width) {
  Table table({{"BUSIEST LINKS"},
               {""},
               {"LOAD"},
               {"", Align::kRight},
               {"PLANNED", Align::kRight},
               {"FLOWS", Align::kRight},
               {"DROPS", Align::kRight},
               {"QUEUE MAX", Align::kRight}});
  for (const auto& link : busiest(snapshot.links, rows)) {
    const Tone tone = !link.up || link.utilization >= 0.95 ? Tone::kBad
                      : link.utilization >= 0.7            ? Tone::kWarning
                                                           : Tone::kGood;
    table.add_row({link.port, "> " + link.peer, Table::Cell(bar(link.utilization, bar_width), tone),
                   link.up ? human_percent(link.utilization) : "down", human_bytes(link.planned_bytes),
                   human_count(link.flows), human_count(link.drops), human_bytes(link.queue_max_bytes)});
  }
  return table.to_string(style.colour);
}

Result<Snapshot> take_snapshot(Client& client) {
  Snapshot snapshot;
  ORRERY_ASSIGN(snapshot.health, client.query<msg::Health>(Kind::kHealth));
  ORRERY_ASSIGN(snapshot.plan, client.query<msg::PlanList>(Kind::kPlanList));
  ORRERY_ASSIGN(snapshot.jobs, client.query<std::vector<msg::JobState>>(Kind::kJobList));
  ORRERY_ASSIGN(snapshot.links, client.query<std::vector<msg::LinkState>>(Kind::kLinkList));
  return snapshot;
}

std::string time_of_day() {
  return fmt::format("{:%H:%M:%S}",
                     fmt::localtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

// The terminal's second screen, left again whatever happens.
class FullScreen {
 public:
  explicit FullScreen(std::ostream* out) : out_(out) {
    if (out_ != nullptr) *out_ << "\x1b[?1049h\x1b[?25l" << std::flush;
  }
  ~FullScreen() {
    if (out_ != nullptr) *out_ << "\x1b[?25h\x1b[?1049l" << std::flush;
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  void draw(const std::string& text) { *out_ << "\x1b[H\x1b[J" << text << std::flush; }

 private:
  std::ostream* out_;
};

bool wait(Console& console, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!console.interrupted()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(left, std::chrono::milliseconds(50)));
  }
  return false;
}

std::string fitted(const std::string& text, const Console& console) {
  const TerminalSize size = console.size();
  return fitted(text, size.columns, size.rows - 1);
}

void show(Console& console, FullScreen& screen, const Snapshot& snapshot, const WatchOptions& options, bool full) {
  if (options.json)
    console.out << json_text(json_of(snapshot), -1) << std::flush;
  else if (full)
    screen.draw(screen_of(snapshot, {console.colour, tai_now_ns()}, console.size().columns, console.size().rows - 1));
  else
    console.out << line_of(snapshot, time_of_day()) << "\n" << std::flush;
}

// A controller that goes away while being watched is awaited; one that was never there is an error at once.
int watch(Session& session, const WatchOptions& options) {
  Console& console = session.console;
  auto client = Client::create(session.global);
  if (!client) return report(console, client.error());
  auto snapshot = take_snapshot(*client);
  if (!snapshot) return report(console, snapshot.error());
  const bool full = console.terminal && !options.json;
  console.catch_interrupts();
  FullScreen screen(full ? &console.out : nullptr);
  for (uint64_t shown = 1;; ++shown) {
    if (snapshot)
      show(console, screen, *snapshot, options, full);
    else if (full)
      screen.draw(fitted("Waiting for the controller: " + snapshot.error().message + "\n", console));
    else
      report(console, snapshot.error());
    if (shown == options.count) return snapshot ? kOk : kUnreachable;
    if (!wait(console, options.interval_s)) return kOk;
    snapshot = take_snapshot(*client);
    if (console.interrupted()) return kOk;  // the interrupt may also have ended the wait for an answer
  }
}

}  // namespace

std::string screen_of(const Snapshot& snapshot, const Style& style, int width, int height) {
  const int link_rows = std::max(3, height / 2 - 4);
  const size_t bar_width = static_cast<size_t>(std::clamp(width - 80, 10, 60));
  std::string text = text_of(snapshot.health, style) + "\n" + text_of(snapshot.jobs, style) + "\n" +
                     link_bars(snapshot, style, static_cast<size_t>(link_rows), bar_width) + "\n" +
                     text_of(snapshot.plan, style);
  return fitted(text, width, height);
}

std::string line_of(const Snapshot& snapshot, const std::string& time) {
  const msg::Health& health = snapshot.health;
  const auto top = busiest(snapshot.links, 1);
  return fmt::format("{} plan {}.{} jobs {} flows {} agents {}/{} switches {}/{} busiest {} hits {} problems {}", time,
                     health.term, health.revision, snapshot.jobs.size(), snapshot.plan.flows.size(),
                     health.hosts_connected, health.hosts_known, health.switches_connected, health.switches_known,
                     top.empty() ? "-" : fmt::format("{} {}", top[0].port, human_percent(top[0].utilization)),
                     hit_rate(health.plan_hits, health.plan_misses), health.problems.size());
}

Json json_of(const Snapshot& snapshot) {
  Json json;
  json["health"] = json_of(snapshot.health);
  json["plan"] = json_of(snapshot.plan);
  json["jobs"] = json_of(snapshot.jobs)["jobs"];
  json["links"] = json_of(snapshot.links)["links"];
  return json;
}

void add_watch_command(Session& session) {
  CLI::App* app = session.app.add_subcommand(
      "watch", "Show jobs, busiest links and plan, refreshed; one line per refresh when not on a terminal");
  auto options = std::make_shared<WatchOptions>();
  app->add_option("--interval", options->interval_s, "Seconds between refreshes")
      ->check(within(0.05, 3600))
      ->capture_default_str();
  app->add_option("--count", options->count, "Refreshes before the command ends; 0: until interrupted")
      ->capture_default_str();
  app->add_flag("--json", options->json, "Print one line of JSON per refresh");
  app->callback([&session, options] { session.action = [&session, options] { return watch(session, *options); }; });
}

}  // namespace orrery::ctl
