#include "tools/ctl/cli.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/msg/security.h"
#include "tests/fakes/fake_control_socket.h"
#include "tests/fakes/scratch_directory.h"
#include "tests/unit/ctl/sample_answers.h"

namespace orrery::ctl {
namespace {

using Kind = msg::Request::Kind;
using nlohmann::json;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome call(std::vector<std::string> arguments, const std::string& controller = "ipc:///nonexistent/control.sock") {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  console.environment["ORRERY_CONTROLLER"] = controller;
  const int code = run(arguments, console);
  return {code, out.str(), err.str()};
}

std::string fixture(const std::string& name) {
  return std::string(ORRERY_FIXTURES) + "/topologies/" + name;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A fake controller with an answer to everything.
struct BusyController : test::FakeControlSocket {
  BusyController() {
    answer_with(Kind::kPlanList, sample::plan());
    answer_with(Kind::kFlowExplain, sample::explanation());
    answer_with(Kind::kLinkList, sample::links());
    answer_with(Kind::kJobList, sample::jobs());
    answer_with(Kind::kHostList, sample::hosts());
    answer_with(Kind::kSwitchList, sample::switches());
    answer_with(Kind::kForecastList, sample::forecasts());
    answer_with(Kind::kNicForecasts, sample::nic_forecasts());
    answer_with(Kind::kHealth, sample::health());
    answer_with(Kind::kFlowList, sample::flow_list());
  }
};

struct LiveCommand {
  std::vector<std::string> words;
  Kind kind;
  std::string text;      // in the table
  std::string json_key;  // in --json
};

const LiveCommand kLive[] = {
    {{"plan", "list"}, Kind::kPlanList, "leaf1 > spine2 > leaf2", "flows"},
    {{"flow", "explain", "7"}, Kind::kFlowExplain, "spine2 was the least loaded", "reasons"},
    {{"flow", "list"}, Kind::kFlowList, "17 > 18 on rxe0", "flows"},
    {{"link", "list"}, Kind::kLinkList, "spine2:p1", "links"},
    {{"job", "list"}, Kind::kJobList, "0xabcdef0123456789", "jobs"},
    {{"host", "list"}, Kind::kHostList, "connected", "hosts"},
    {{"switch", "list"}, Kind::kSwitchList, "16,384", "switches"},
    {{"forecast", "list"}, Kind::kNicForecasts, "all-reduce", "forecasts"},
    {{"forecast", "list"}, Kind::kNicForecasts, "h1:eth0", "nics"},
    {{"health"}, Kind::kHealth, "Healthy", "problems"},
};

std::vector<std::string> with(std::vector<std::string> words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
  return words;
}

// `watch` on a controller that answers until interrupted() has been asked `asked` times and not after that; then it
// goes on until `ends` says so. Its patience is the shortest with which the first answers come in time here.
Outcome watch_until_silent(const std::function<bool(int asked)>& ends, std::initializer_list<std::string> more) {
  for (double patience_s = 0.05;; patience_s *= 2) {
    BusyController controller;
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    int asked = 0;
    console.interrupted = [&] {
      controller.fall_silent();
      return ends(++asked);
    };
    const int code = run(with({"watch", "--interval", "0.05", "--timeout", std::to_string(patience_s), "--controller",
                               controller.endpoint()},
                              more),
                         console);
    if (asked != 0 || patience_s > 60) return {code, out.str(), err.str()};
  }
}

}  // namespace

TEST_CASE("every live command asks its question and shows the answer as a table and as JSON") {
  BusyController controller;
  for (const LiveCommand& command : kLive) {
    INFO(command.words[0]);
    const Outcome text = call(command.words, controller.endpoint());
    CHECK(text.code == kOk);
    CHECK(text.err.empty());
    CHECK(contains(text.out, command.text));
    CHECK_FALSE(contains(text.out, "\x1b"));
    CHECK(controller.asked().back().kind == command.kind);
    const Outcome structured = call(with(command.words, {"--json"}), controller.endpoint());
    CHECK(structured.code == kOk);
    CHECK(json::parse(structured.out).contains(command.json_key));
  }
}

TEST_CASE("every live command exits with 3 and a cure when nobody answers, and does not hang") {
  test::FakeControlSocket silent;
  silent.fall_silent();
  for (const std::string& endpoint : {silent.endpoint(), std::string("ipc:///nonexistent/control.sock")})
    for (const LiveCommand& command : kLive) {
      INFO(command.words[0]);
      const Outcome outcome = call(with(command.words, {"--timeout", "0.05"}), endpoint);
      CHECK(outcome.code == kUnreachable);
      CHECK(outcome.out.empty());
      CHECK(contains(outcome.err, "no answer from " + endpoint + " within 50 ms; check that the controller runs"));
    }
}

TEST_CASE("every live command exits with 1 and the controller's words when it refuses") {
  test::FakeControlSocket controller;  // has no answers
  for (const LiveCommand& command : kLive) {
    const Outcome outcome = call(command.words, controller.endpoint());
    CHECK(outcome.code == kFailed);
    CHECK(outcome.err == "orreryctl: the fake has no answer to this; set one in the test\n");
  }
}

TEST_CASE("a controller that is older than a question is named as such, with the cure, by every live command") {
  test::FakeControlSocket older;
  for (const LiveCommand& command : kLive)
    older.answer_with(command.kind, msg::RequestError{std::string(msg::RequestError::kUnknownKind) + "; use another"});
  older.answer_with(Kind::kForecastList, sample::forecasts());
  for (const LiveCommand& command : kLive) {
    INFO(command.words[0]);
    const Outcome outcome = call(command.words, older.endpoint());
    CHECK(outcome.code == kFailed);
    CHECK(contains(outcome.err, "it is older than this orreryctl"));
    CHECK(contains(outcome.err, "upgrade orrery-controller to that version"));
    CHECK_FALSE(contains(outcome.err, "use another"));
  }
}

TEST_CASE("of an older controller forecast list shows what that knows, and says what is missing") {
  test::FakeControlSocket older;
  older.answer_with(Kind::kForecastList, sample::forecasts());
  older.answer_with(Kind::kNicForecasts, msg::RequestError{std::string(msg::RequestError::kUnknownKind)});
  const Outcome text = call({"forecast", "list"}, older.endpoint());
  CHECK(text.code == kFailed);
  CHECK(contains(text.out, "all-reduce"));
  CHECK_FALSE(contains(text.out, "No simulated prediction"));
  CHECK(contains(text.err, "does not know what NICs send beside a simulation's prediction"));
  const Outcome structured = call({"forecast", "list", "--json"}, older.endpoint());
  CHECK(structured.code == kFailed);
  CHECK(json::parse(structured.out).contains("forecasts"));
  CHECK_FALSE(json::parse(structured.out).contains("nics"));
}

TEST_CASE("an answer that does not decode, or to another question, is an error and no crash") {
  test::FakeControlSocket controller;
  for (const std::string& bytes : {std::string("garbage"), std::string(64, '\xff'), std::string(8, '\0')}) {
    controller.answer_with_bytes(bytes);
    for (const LiveCommand& command : kLive) {
      const Outcome outcome = call(command.words, controller.endpoint());
      CHECK(outcome.code == kFailed);
      CHECK_FALSE(outcome.err.empty());
    }
  }
  controller.answer_with_bytes(msg::encode(msg::Response(sample::health())).value());
  const Outcome outcome = call({"plan", "list"}, controller.endpoint());
  CHECK(outcome.code == kFailed);
  CHECK(contains(outcome.err, "use the orreryctl of the controller's version"));
}

TEST_CASE("flow ids are taken in decimal and in hex, and nothing else") {
  BusyController controller;
  CHECK(call({"flow", "explain", "0x123456789abcdef0"}, controller.endpoint()).code == kOk);
  CHECK(controller.asked().back().flow_id == 0x123456789abcdef0);
  CHECK(call({"flow", "explain", "42"}, controller.endpoint()).code == kOk);
  CHECK(controller.asked().back().flow_id == 42);
  for (const char* wrong : {"x", "0x", "1.5", "18446744073709551616", "7 "}) {
    const Outcome outcome = call({"flow", "explain", wrong}, controller.endpoint());
    CHECK(outcome.code == kUsage);
    CHECK(contains(outcome.err, "take one from the FLOW column of 'orreryctl plan list'"));
  }
}

TEST_CASE("health exits with 1 when something is wrong, so that scripts can ask") {
  BusyController controller;
  msg::Health ill = sample::health();
  ill.problems = {"h2 is absent: start orrery-agent there"};
  controller.answer_with(Kind::kHealth, ill);
  const Outcome outcome = call({"health"}, controller.endpoint());
  CHECK(outcome.code == kFailed);
  CHECK(contains(outcome.out, "h2 is absent"));
}

TEST_CASE("watch prints a line per refresh when not on a terminal, and ends after --count") {
  BusyController controller;
  const Outcome outcome = call({"watch", "--count", "3", "--interval", "0.05"}, controller.endpoint());
  CHECK(outcome.code == kOk);
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 3);
  CHECK(contains(outcome.out, "busiest leaf1:p6 97.0 %"));
  CHECK_FALSE(contains(outcome.out, "\x1b"));
  const Outcome structured = call({"watch", "--count", "1", "--json"}, controller.endpoint());
  CHECK(json::parse(structured.out)["links"].size() == 2);
}

TEST_CASE("watch draws on a terminal and leaves it as it was") {
  BusyController controller;
  std::ostringstream out, err;
  Console console{.out = out, .err = err, .terminal = true, .colour = true};
  CHECK(run({"watch", "--count", "1", "--controller", controller.endpoint()}, console) == kOk);
  CHECK(out.str().starts_with("\x1b[?1049h"));
  CHECK(out.str().ends_with("\x1b[?25h\x1b[?1049l"));
}

TEST_CASE("watch ends on an interrupt, also while it waits for an answer") {
  BusyController controller;
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  bool caught = false;
  console.catch_interrupts = [&] { caught = true; };
  console.interrupted = [] { return true; };
  CHECK(run({"watch", "--interval", "3600", "--controller", controller.endpoint()}, console) == kOk);
  CHECK(caught);
  CHECK(watch_until_silent([](int asked) { return asked > 3; }, {}).code == kOk);
}

TEST_CASE("watch goes on while the controller is away") {
  const Outcome outcome = watch_until_silent([](int) { return false; }, {"--count", "3"});
  CHECK(outcome.code == kUnreachable);
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
  CHECK(contains(outcome.err, "no answer from"));
}

TEST_CASE("--controller beats ORRERY_CONTROLLER, and stands before or after the command") {
  BusyController controller;
  CHECK(call({"health", "--controller", controller.endpoint()}).code == kOk);
  CHECK(call({"--controller", controller.endpoint(), "health"}).code == kOk);
  CHECK(call({"--controller=" + controller.endpoint(), "health"}).code == kOk);
  const Outcome wrong = call({"health", "--controller", "/run/x"});
  CHECK(wrong.code == kUsage);
  CHECK(contains(wrong.err, "ipc://"));
  CHECK(call({"health", "--key-file", "x"}).code == kUsage);
}

TEST_CASE("unknown commands and options are answered with the nearest known one") {
  const auto err_of = [](std::vector<std::string> words) {
    const Outcome outcome = call(std::move(words));
    CHECK(outcome.code == kUsage);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(contains(err_of({"topologi"}), "orreryctl: unknown command 'topologi', did you mean 'topology'?"));
  CHECK(contains(err_of({"plan", "lst"}), "orreryctl plan: unknown command 'lst', did you mean 'list'?"));
  CHECK(contains(err_of({"--timeout", "1", "lnik", "list"}), "did you mean 'link'?"));
  CHECK(contains(err_of({"xyzzyxyzzy"}), "The commands here are: plan, flow, link"));
  CHECK(contains(err_of({"plan", "list", "--jsn"}), "unknown option '--jsn', did you mean '--json'?"));
  CHECK(contains(err_of({"--timeot", "3", "health"}), "did you mean '--timeout'?"));
  CHECK(contains(err_of({"plan"}), "a command is required, one of: list, compute"));
  CHECK(contains(err_of({}), "a command is required"));
  CHECK(contains(err_of({"flow", "explain"}), "ID is required"));
  CHECK(contains(err_of({"health", "--timeout", "soon"}), "--timeout"));
  CHECK(contains(err_of({"health", "--timeout", "0"}), "--timeout"));
  CHECK(contains(err_of({"topology", "generate", "leaf-spine", "--leaves", "many"}), "--leaves"));
}

TEST_CASE("help and version go to standard output with code 0") {
  CHECK(call({"--help"}).code == kOk);
  CHECK(contains(call({"--help"}).out, "Exit codes: 0 success"));
  CHECK(contains(call({"plan", "list", "--help"}).out, "--json"));
  CHECK(call({"--version"}).out.starts_with("orreryctl "));
}

TEST_CASE("generated keys are written once, load again, and are shown as an allow-list takes them") {
  test::ScratchDirectory directory;
  const Outcome made = call({"key", "generate", directory.file("k")});
  CHECK(made.code == kOk);
  const auto keys = msg::read_key_file(directory.file("k"));
  REQUIRE(keys);
  CHECK(contains(made.out, keys->public_key + "  NAME"));
  CHECK_FALSE(contains(made.out, keys->secret_key));
  const Outcome again = call({"key", "generate", directory.file("k")});
  CHECK(again.code == kFailed);
  CHECK(contains(again.err, "exists"));
}

TEST_CASE("a generated topology checks as good and shows its ports") {
  const test::ScratchDirectory directory;
  const std::string file = directory.file("t.yaml");
  CHECK(call({"topology", "generate", "leaf-spine", "--leaves", "2", "--spines", "3", "--hosts", "4",
              "--uplink-rate-bps", "400000000", "-o", file})
            .code == kOk);
  const Outcome check = call({"topology", "check", file});
  CHECK(check.code == kOk);
  CHECK(check.out == file + ": good: leaf-spine-2x3x4: 5 switches, 4 hosts, 10 links, MTU 9000\n");
  CHECK(contains(call({"topology", "show", file}).out, "leaf1   tier 1  p3    spine1:p1  400 Mbit/s  128 KiB\n"));
  const json shown = json::parse(call({"topology", "show", file, "--json"}).out);
  CHECK(shown["hosts"][3]["nics"][0]["peer"] == "leaf2:p2");
  CHECK(call({"topology", "generate", "leaf-spine", "--output", "/nonexistent/t.yaml"}).code == kFailed);
  CHECK(call({"topology", "generate", "leaf-spine", "--hosts", "17"}).code == kUsage);
  CHECK(call({"topology", "generate", "leaf-spine"}).out.starts_with("schema: 1\n"));
}

TEST_CASE("an imported list of hosts is a topology that checks as good, and wrong options are usage errors") {
  const test::ScratchDirectory directory;
  const std::string file = directory.file("t.yaml");
  const std::string hosts = std::string(ORRERY_FIXTURES) + "/hosts/three-pods.csv";
  const Outcome made = call({"topology", "import", hosts, "--oversubscription", "2:1", "--name", "site", "-o", file});
  CHECK(made.code == kOk);
  CHECK(made.out ==
        "site: 18 hosts, 6 leaves with 2 x 100 Gbit/s upwards, 3 pods of 2 spines with 3 x 100 Gbit/s upwards, 6 "
        "cores\n");
  CHECK(contains(call({"topology", "check", file}).out, "good: site: 18 switches, 18 hosts, 48 links"));
  CHECK(call({"topology", "import", hosts}).out.starts_with("schema: 1\n"));
  CHECK(contains(call({"topology", "import", hosts, "--nic-rate", "0"}).err, "'0' is out of range"));
  CHECK(contains(call({"topology", "import", hosts, "--oversubscription", "1:4"}).err, "no ratio of 1:1 or more"));
  CHECK(call({"topology", "import", "/nonexistent"}).code == kFailed);
  CHECK(call({"topology", "import", fixture("leaf-spine-2x2x4.yaml")}).code == kUsage);
}

TEST_CASE("a planned fabric is shown, listed cable by cable and written as a topology that checks as good") {
  const test::ScratchDirectory directory;
  const std::string file = directory.file("t.yaml"), cables = directory.file("c.csv");
  const Outcome text = call({"topology", "plan", "--hosts", "100", "--leaf", "32x400G", "--oversubscription", "3:1",
                             "--spare", "0", "--emit", file, "--cables", cables});
  CHECK(text.code == kOk);
  CHECK(contains(text.out, "100 hosts with 1 NIC of 400 Gbit/s under 5 leaves; room for 0 more"));
  CHECK(contains(text.out, "leaf          5  32x400G    20   8             2.5:1    160   140    20\n"));
  CHECK(contains(text.out, "one spine             every leaf     50.0 %"));
  CHECK(contains(call({"topology", "check", file}).out, "good: planned: 7 switches, 100 hosts, 140 links"));
  std::ifstream list(cables);
  const std::string lines{std::istreambuf_iterator<char>(list), {}};
  CHECK(lines.starts_with("from_device,from_port,to_device,to_port,rate_bps,tier\nh1,eth0,leaf1,p1,400000000000,"));
  const json plan = json::parse(
      call({"topology", "plan", "--hosts", "4096", "--nics", "8", "--leaf", "64x800G", "--rails", "--json"}).out);
  CHECK(plan["tiers"] == 3);
  CHECK(plan["switches"][2]["tier"] == "core");
  CHECK(plan["bill"].size() == 7);
}

TEST_CASE("a fabric that cannot be is refused with what would do, and a wrong option with how to write it") {
  const Outcome refused = call({"topology", "plan", "--hosts", "4096", "--leaf", "32x400G", "--tiers", "2"});
  CHECK(refused.code == kUsage);
  CHECK(contains(refused.err, "need three tiers: two reach 426 hosts"));
  CHECK(contains(call({"topology", "plan", "--hosts", "10", "--leaf", "32"}).err, "write its ports as 64x400G"));
  CHECK(call({"topology", "plan", "--hosts", "10", "--emit", "/nonexistent/t.yaml"}).code == kFailed);
  CHECK(contains(call({"topology", "plan", "--hosts", "10", "--name", "a b", "--emit", "-"}).err, "a b"));
  CHECK(call({"topology", "plan"}).code == kUsage);
}

TEST_CASE("estimate shows what a job sends, and writes a scenario of it") {
  const test::ScratchDirectory directory;
  const std::string file = directory.file("s.yaml");
  const Outcome text = call({"estimate", "--model", "gpt-13b", "--gpus", "128", "--tp", "8", "--zero", "1", "--emit",
                             file, "--topology", "fabric.yaml"});
  CHECK(text.code == kOk);
  CHECK(contains(text.out, "gpt-13b: 12.9 billion parameters, 1.62 billion on each of 128 GPUs"));
  CHECK(contains(text.out, "attention             all_gather      tp        8    120      20 MiB"));
  CHECK(contains(text.out, "backward"));
  std::ifstream scenario(file);
  const std::string lines{std::istreambuf_iterator<char>(scenario), {}};
  CHECK(contains(lines, "topology: {file: \"fabric.yaml\"}"));
  const json parsed =
      json::parse(call({"estimate", "--parameters", "70G", "--tp", "8", "--pp", "4", "--dp", "4", "--json"}).out);
  CHECK(parsed["ranks"] == 128);
  CHECK(parsed["communications"].size() > 5);
  CHECK(parsed["iteration_s"].get<double>() > parsed["compute_s"].get<double>());
}

TEST_CASE("estimate names what does not fit") {
  CHECK(contains(call({"estimate"}).err, "give --model NAME"));
  CHECK(
      contains(call({"estimate", "--model", "llama-7"}).err, "no model is called 'llama-7', did you mean 'llama-7b'?"));
  CHECK(contains(call({"estimate", "--model", "llama-7b", "--gpus", "100", "--tp", "8"}).err,
                 "100 GPUs do not divide by tensor 8 x pipeline 1"));
  CHECK(contains(call({"estimate", "--model", "llama-7b", "--weights", "int4"}).err, "'int4' is no precision"));
  CHECK(contains(call({"estimate", "--model", "llama-7b", "--emit", "-"}).err, "no traffic to simulate"));
  CHECK(call({"estimate", "--model", "llama-7b", "--zero", "4"}).code == kUsage);
}

TEST_CASE("place shows before and after, and writes a scenario that names the hosts") {
  const test::ScratchDirectory directory;
  const std::string file = directory.file("s.yaml"), placed = directory.file("p.yaml");
  std::ofstream(file)
      << "topology: {leaf_spine: {leaves: 2, spines: 2, hosts: 8}}\nplacement: {kind: fragmented}\n"
         "schemes: [ecmp]\njobs:\n  - name: a\n    hosts: 4\n    steps: [{op: all_reduce, bytes: 4000}]\n";
  const Outcome outcome = call({"place", file, "--emit", placed, "--rankfiles", directory.file("r")});
  CHECK(outcome.err == "");
  CHECK(outcome.code == kOk);
  CHECK(contains(outcome.out, "a    before      4       2          0 B          0 B       23.4 KiB"));
  CHECK(contains(outcome.out, "     after       4       1          0 B     23.4 KiB            0 B"));
  CHECK(call({"place", placed, "--json"}).code == kOk);
  CHECK(json::parse(call({"place", placed, "--json"}).out)["jobs"][0]["before"]["across_leaves"] == 0);
  std::ifstream ranks(directory.file("r.a.rankfile"));
  std::string first;
  std::getline(ranks, first);
  CHECK(first.starts_with("rank 0=h"));
}

TEST_CASE("place takes rings and all-to-alls on a topology or a list of hosts, and keeps off occupied ones") {
  const test::ScratchDirectory directory;
  const std::string hosts = std::string(ORRERY_FIXTURES) + "/hosts/three-pods.csv";
  const std::string busy = directory.file("busy");
  std::ofstream(busy) << "10.0.1.1, 10.0.2.1\n";
  const json placed = json::parse(call({"place", "--topology", hosts, "--ring", "6x1M", "--all-to-all", "4x1M",
                                        "--before", "random", "--occupied", busy, "--json"})
                                      .out);
  CHECK(placed["jobs"][0]["hosts"].size() == 6);
  CHECK(placed.dump().find("\"10.0.1.1\"") == std::string::npos);
  const std::string emitted = directory.file("p.yaml");
  CHECK(call({"place", "--topology", fixture("leaf-spine-4x4x16.yaml"), "--ring", "6x1M", "--emit", emitted}).code ==
        kOk);
  CHECK(call({"place", emitted}).code == kOk);  // finds the topology beside it
  CHECK(contains(call({"place", "--topology", hosts, "--ring", "6x1M", "--emit", "-"}).err, "topology import"));
  CHECK(contains(call({"place", "--topology", hosts, "--ring", "40x1M"}).err, "are left of the 18 that are free"));
  CHECK(contains(call({"place", "--topology", hosts, "--ring", "40"}).err, "such as 64x125M"));
  CHECK(contains(call({"place", "--topology", hosts}).err, "give a scenario file, or --topology with --ring"));
  CHECK(contains(call({"place", "--topology", hosts, "--ring", "2x1M", "--occupied", hosts}).err, "no host 'ip'"));
}

TEST_CASE("checking several files reports the mistakes of each and the worst outcome") {
  const Outcome outcome = call({"topology", "check", fixture("leaf-spine-2x2x4.yaml"), fixture("bad-partition.yaml"),
                                fixture("bad-links.yaml")});
  CHECK(outcome.code == kUsage);
  CHECK(contains(outcome.out, "leaf-spine-2x2x4.yaml: good"));
  CHECK(contains(outcome.err, "bad-partition.yaml:15: hosts[h3]: no path between h3 and h1, h2"));
  CHECK(
      contains(outcome.err, "bad-links.yaml:21: links[3]: no switch or host is named 'spin1', did you mean 'spine1'?"));
  CHECK(call({"topology", "check", "/nonexistent"}).code == kFailed);
  CHECK(call({"topology", "show", fixture("bad-syntax.yaml")}).code == kUsage);
}

TEST_CASE("plan compute plans offline and shows what ECMP would do") {
  const std::string file = fixture("leaf-spine-4x4x16.yaml");
  const std::string ring = "h1,h5,h9,h13,h2,h6,h10,h14,h3,h7,h11,h15,h4,h8,h12,h16";
  const Outcome outcome = call({"plan", "compute", file, "--ring", ring, "--json"});
  REQUIRE(outcome.code == kOk);
  const json plan = json::parse(outcome.out);
  CHECK(plan["flows"].size() == 16);
  CHECK(plan["optimal"] == true);
  CHECK(plan["gap_percent"] == 0);
  // 15/16 of twice 8 MiB at 100 Mbit/s, with each spine link carrying one flow.
  CHECK(plan["max_drain_ns"].get<double>() == Approx(15728640 * 80.0).epsilon(0.001));
  CHECK(plan["ecmp_mean_drain_ns"].get<double>() > 1.5 * plan["max_drain_ns"].get<double>());
  const Outcome text = call({"plan", "compute", file, "--ring", ring, "--ring", "h1,h2"});
  CHECK(text.code == kOk);
  CHECK(contains(text.out, "18 flows"));
}

TEST_CASE("plan compute avoids failed cables and names what it does not know") {
  const std::string file = fixture("leaf-spine-2x2x4.yaml");
  const Outcome outcome = call({"plan", "compute", file, "--ring", "h1,h3", "--down", "leaf1:p3", "--json"});
  REQUIRE(outcome.code == kOk);
  const json flows = json::parse(outcome.out)["flows"];
  for (const auto& flow : flows) CHECK(flow["path"].dump().find("spine1") == std::string::npos);
  CHECK(contains(call({"plan", "compute", file, "--ring", "h1,h33"}).err,
                 "the topology has no host 'h33', did you mean 'h3'?"));
  CHECK(contains(call({"plan", "compute", file, "--ring", "h1"}).err, "a ring has two hosts or more"));
  CHECK(contains(call({"plan", "compute", file, "--ring", "h1,h3", "--down", "leaf1:q3"}).err,
                 "no cabled port 'leaf1:q3', did you mean 'leaf1:p3'?"));
  CHECK(call({"plan", "compute", file, "--ring", "h1,"}).code == kUsage);
  CHECK(call({"plan", "compute", "--ring", "h1,h3", file}).code == kOk);
  CHECK(call({"plan", "compute", file, "--ring", "h1,h3", "--bytes", "18446744073709551615"}).code == kUsage);
  CHECK(call({"plan", "compute", file}).code == kUsage);
}

}  // namespace orrery::ctl
