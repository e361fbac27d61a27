#include "tools/ctl/render.h"

#include <catch2/catch.hpp>

#include "tests/unit/ctl/sample_answers.h"
#include "tools/ctl/table.h"
#include "tools/ctl/watch.h"

namespace orrery::ctl {
namespace {

const Style kPlain{false, sample::kNowTaiNs};

Snapshot snapshot() {
  return {sample::health(), sample::plan(), sample::jobs(), sample::links()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a plan shows its quality, age and every flow's way") {
  CHECK(text_of(sample::plan(), kPlain) ==
        "Plan 3.17: 2 flows by ebpf (edge-colouring), planned 2 s ago in 1.2 ms\n"
        "Busiest link: 15 MiB, 1.26 s per round; lower bound 1.26 s: gap 0.0 % (optimal)\n"
        "\n"
        "              FLOW  FROM  TO  VIA                     BACKUP                  PER ROUND  OFFSET       PACE  "
        "STATE    ON PATH\n"
        "                 7  h1    h5  leaf1 > spine2 > leaf2  leaf1 > spine3 > leaf2     15 MiB  250 us  50 Mbit/s  "
        "alive    yes\n"
        "0x123456789abcdef0  h1    h5  leaf1 > spine2 > leaf2  -                          15 MiB  250 us          -  "
        "planned  NO\n");
}

TEST_CASE("a plan that is not proven optimal shows its gap, and what splitting flows would gain") {
  const msg::PlanBounds bounds{1'200'000, 1'000'000, 900'000};
  CHECK(text_of(bounds) == "1.2 ms per round; lower bound 1 ms: gap 20.0 %; 900 us if flows could be split at will");
  Json json;
  add_bounds(json, bounds);
  CHECK(json["gap_percent"].get<double>() == Approx(20));
  CHECK(json["fluid_bound_ns"] == 900'000);
  CHECK(json_of(sample::explanation())["plan"]["gap_percent"] == 0);
}

TEST_CASE("a plan of the last run has no bound, and its gap is not told") {
  CHECK(contains(text_of(msg::PlanBounds{}), "not known"));
  Json json;
  add_bounds(json, {});
  CHECK(json["gap_percent"].is_null());
}

TEST_CASE("an explanation gives the reasons in order and what decides at each hop") {
  const std::string text = text_of(sample::explanation(), kPlain);
  CHECK(contains(text, "Flow 7: h1 to h5, communicator 0xabcdef0123456789\n"));
  CHECK(contains(text, "tcp 10.0.1.1:40001 > 10.0.2.1:5000"));
  CHECK(contains(text, "h1:eth0 > leaf1:p6 > spine2:p2 > leaf2:p1"));
  CHECK(contains(text, "  - the ring sends 15 MiB per round from h1 to h5\n  - spine2 was the least loaded of 4\n"));
  CHECK(contains(text, "leaf1:p6   rule 12             15 MiB  leaf1:p5 (load 30 MiB), leaf1:p7 (load 30 MiB)\n"));
}

TEST_CASE("flows show their queue pairs, whether they can move, and what was deferred") {
  const std::string text = text_of(sample::flow_list(), kPlain);
  CHECK(contains(
      text, "7  h1    h5  49441 > 4791  17 > 18 on rxe0  15 MiB  leaf1 > spine2 > leaf2  yes      live, 2 so far"));
  CHECK(contains(text, "NO       at next connection  1,200 (3 early)  250 us\n"));
  CHECK(contains(text, "-  h1    h5  40001 > 5000  -                   0 B  -                       -        - "));
  CHECK(contains(text, "\n3 of 5 flows, those that sent most\n"));
  msg::FlowExplanation explanation = sample::explanation();
  explanation.live = {sample::queue_pair()};
  CHECK(contains(text_of(explanation, kPlain), "17 > 18 on rxe0"));
}

TEST_CASE("hosts show RoCE and the layers that their processes have, jobs whether all of them is under control") {
  CHECK(contains(text_of(sample::hosts(), kPlain), "yes   nccl dlsym verbs (1 of 2) sockets\n"));
  CHECK(contains(text_of(sample::hosts(), kPlain), "no    -\n"));
  auto jobs = sample::jobs();
  CHECK(contains(text_of(jobs, kPlain), "full\n"));
  jobs[0].device_traffic = true;
  CHECK(contains(text_of(jobs, kPlain), "partly\n"));
}

TEST_CASE("queue pairs, layers and device traffic are in the JSON") {
  const Json list = json_of(sample::flow_list());
  CHECK(list["total"] == 5);
  CHECK(list["flows"][0]["queue_pair"]["qpn"] == 17);
  CHECK(list["flows"][0]["queue_pair"]["movable"] == true);
  CHECK(list["flows"][0]["tuple"]["src_port"] == 49441);
  CHECK(list["flows"][1]["queue_pair"]["drained_early"] == 3);
  CHECK(list["flows"][1]["queue_pair"]["movable"] == false);
  CHECK(list["flows"][2]["queue_pair"].is_null());
  CHECK(json_of(sample::hosts())["hosts"][0]["layers"]["verbs"] == 1);
  CHECK(json_of(sample::hosts())["hosts"][0]["features"][1] == "roce");
  CHECK(json_of(sample::jobs())["jobs"][0]["device_traffic"] == false);
}

TEST_CASE("empty answers say what their emptiness means") {
  CHECK(text_of(msg::PlanList{}, kPlain) == "No plan: no job is known, so every flow goes where ECMP sends it.\n");
  CHECK(contains(text_of(std::vector<msg::LinkState>{}, kPlain), "No links"));
  CHECK(contains(text_of(msg::FlowList{}, kPlain), "No flows"));
  CHECK(contains(text_of(std::vector<msg::JobState>{}, kPlain), "No jobs"));
  CHECK(contains(text_of(std::vector<msg::HostState>{}, kPlain), "No hosts"));
  CHECK(contains(text_of(std::vector<msg::SwitchState>{}, kPlain), "No switches"));
  CHECK(contains(text_of(std::vector<msg::ForecastState>{}, kPlain), "No forecasts"));
}

TEST_CASE("NICs show what was predicted beside what is seen, and what to make of it") {
  const std::string text = text_of(sample::nic_forecasts(), kPlain);
  CHECK(
      text.starts_with("Predicted on leaf-spine-4x4x16 by orrery, fluid engine, seed 1: a ring\n"
                       "  train: 320 ms per iteration\n"));
  CHECK(contains(text,
                 "h1:eth0  train  98.3 Mbit/s  98.3 Mbit/s  70 Mbit/s  72 Mbit/s  71.2 %  slower\n"
                 "h2:eth0  -          0 bit/s      0 bit/s   5 Mbit/s   6 Mbit/s       -  not predicted\n"));
  CHECK(contains(text, "2 of 3 NICs, those farthest from the prediction"));
  const Json json = json_of(sample::nic_forecasts());
  CHECK(json["prediction"]["jobs"][0]["period_ns"] == 320'000'000);
  CHECK(json["prediction"]["nics_total"] == 3);
  CHECK(json["nics"][0]["predicted_bps"] == 98'304'000);
  CHECK(json["nics"][0]["observed_bps"] == 70'000'000);
  CHECK(json["nics"][0]["verdict"] == "slower");
  CHECK(json["nics"][1]["verdict"] == "not_predicted");
}

TEST_CASE("a prediction made on another fabric says so, and none says how to make one") {
  msg::NicForecasts other = sample::nic_forecasts();
  other.same_fabric = false;
  CHECK(contains(text_of(other, kPlain), "simulate again"));
  CHECK(contains(text_of(msg::NicForecasts{}, kPlain), "orrery-sim run --waveforms"));
  CHECK(json_of(msg::NicForecasts{})["prediction"].is_null());
}

TEST_CASE("what a newer controller says and this orreryctl has no name for is called unrecognised") {
  msg::PlanList plan = sample::plan();
  plan.flows[0].state = msg::PlannedFlow::State::kUnrecognised;
  CHECK(contains(text_of(plan, kPlain), "unrecognised"));
  CHECK(json_of(plan)["flows"][0]["state"] == "unrecognised");
  msg::NicForecasts nics = sample::nic_forecasts();
  nics.nics[0].verdict = msg::NicForecast::Verdict::kUnrecognised;
  CHECK(contains(text_of(nics, kPlain), "unrecognised"));
  CHECK(json_of(nics)["nics"][0]["verdict"] == "unrecognised");
}

TEST_CASE("links show load, drops and whether they are up") {
  const std::string text = text_of(sample::links(), kPlain);
  CHECK(contains(text,
                 "leaf1:p6  spine2:p1  up     100 Mbit/s  ##########  97.0 %   15 MiB      1  954 MiB      3  128 KiB "
                 "of 256 KiB\n"));
  CHECK(contains(text, "leaf1:p5  spine1:p1  DOWN "));
}

TEST_CASE("jobs that not all ranks have announced say so") {
  const std::string text = text_of(sample::jobs(), kPlain);
  CHECK(contains(text, "3 of 4"));
  CHECK(contains(text, "h1,h5,h9"));
  CHECK(contains(text, "all-reduce"));
  CHECK(contains(text, "99.0 %"));
}

TEST_CASE("refused agents are listed with the controller's words") {
  const std::string text = text_of(sample::hosts(), kPlain);
  CHECK(contains(text, "h1    connected  100 ms ago"));
  CHECK(contains(text, "-350 ns"));
  CHECK(contains(text, "unsynchronized"));
  CHECK(contains(text, "\nh2 refused: it runs schema 2; install the same release on both\n"));
}

TEST_CASE("switches, forecasts and health are shown") {
  CHECK(contains(text_of(sample::switches(), kPlain), "leaf1   connected  now     17  12 of 16,384    7 of 8\n"));
  const std::string forecast = text_of(sample::forecasts(), kPlain);
  CHECK(contains(forecast, "5 ms    2 ms  160 ms  900 us      93.0 %    90.0 %\n"));
  CHECK(text_of(sample::health(), kPlain) ==
        "Healthy: controller 0.1.0, started 5 min 0 s ago, plan 3.17, driver ebpf\n"
        "Agents 16 of 16, switches 8 of 8, plan hits 99.0 %\n");
  msg::Health ill = sample::health();
  ill.problems = {"h2 is absent: start orrery-agent there"};
  CHECK(contains(text_of(ill, kPlain), "1 problem: "));
  CHECK(contains(text_of(ill, kPlain), "  - h2 is absent: start orrery-agent there\n"));
}

TEST_CASE("texts of the controller cannot steer the terminal") {
  msg::Health health = sample::health();
  health.problems = {"\x1b[2Jgone"};
  health.driver = "\x1b[31m";
  msg::FlowExplanation explanation = sample::explanation();
  explanation.reasons = {"\x1b]0;title\x07"};
  explanation.flow.src_host = "\x1b[H";
  explanation.flow.path = {"\x1b[H"};
  explanation.hops[0].decided_by = "\x1b[H";
  msg::PlanList plan = sample::plan();
  plan.driver = plan.method = plan.flows[0].src_host = "\x1b[H";
  std::vector<msg::HostState> hosts = sample::hosts();
  hosts[1].refusal = hosts[0].host = "\x1b[H";
  for (const std::string& text :
       {text_of(health, kPlain), text_of(explanation, kPlain), text_of(plan, kPlain), text_of(hosts, kPlain)})
    CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("without colour there are no escape sequences, with colour the text is the same besides them") {
  const Style coloured{true, sample::kNowTaiNs};
  const std::string plain = text_of(sample::plan(), kPlain);
  std::string stripped = text_of(sample::plan(), coloured);
  CHECK(stripped != plain);
  for (size_t at; (at = stripped.find('\x1b')) != std::string::npos;)
    stripped.erase(at, stripped.find('m', at) - at + 1);
  CHECK(stripped == plain);
}

TEST_CASE("JSON carries every field under the schema's name and survives bytes that are no text") {
  const Json plan = json_of(sample::plan());
  CHECK(plan["flows"][0]["flow_id"] == 7);
  CHECK(plan["flows"][1]["flow_id"] == 0x123456789abcdef0);
  CHECK(plan["flows"][0]["tuple"]["src_port"] == 40001);
  CHECK(plan["flows"][0]["state"] == "alive");
  CHECK(plan["flows"][1]["on_path"] == "no");
  CHECK(json_of(sample::explanation())["hops"][0]["alternatives"].size() == 2);
  CHECK(json_of(sample::links())["links"][0]["up"] == false);
  CHECK(json_of(sample::jobs())["jobs"][0]["last_op"] == "all-reduce");
  CHECK(json_of(sample::hosts())["hosts"][0]["clock_offset_ns"] == -350);
  CHECK(json_of(sample::switches())["switches"][0]["table_size"] == 16384);
  CHECK(json_of(sample::forecasts())["forecasts"][0]["period_ns"] == 160'000'000);
  CHECK(json_of(std::vector<msg::JobState>{})["jobs"].is_array());
  msg::Health health = sample::health();
  health.problems = {"\xff\xfe"};
  CHECK_FALSE(json_text(json_of(health)).empty());
  CHECK(Json::parse(json_text(json_of(snapshot()), -1))["health"]["driver"] == "ebpf");
}

TEST_CASE("the watch screen fits the terminal, whatever its size, with and without colour") {
  for (int width : {1, 20, 80, 200})
    for (int height : {1, 5, 24, 60})
      for (bool colour : {false, true}) {
        const std::string screen = screen_of(snapshot(), {colour, sample::kNowTaiNs}, width, height);
        std::string stripped = screen;
        for (size_t at; (at = stripped.find('\x1b')) != std::string::npos;)
          stripped.erase(at, stripped.find('m', at) - at + 1);
        CHECK(std::count(stripped.begin(), stripped.end(), '\n') <= height);
        std::istringstream lines(stripped);
        for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= static_cast<size_t>(width));
      }
}

TEST_CASE("the watch screen puts the busiest link first and shows jobs and plan") {
  const std::string screen = screen_of(snapshot(), kPlain, 140, 40);
  CHECK(contains(screen, "Healthy"));
  CHECK(contains(screen, "all-reduce"));
  CHECK(contains(screen, "Plan 3.17"));
  CHECK(screen.find("leaf1:p6 ") < screen.find("leaf1:p5 "));
}

TEST_CASE("the watch line has the figures of the moment") {
  CHECK(line_of(snapshot(), "12:00:01") ==
        "12:00:01 plan 3.17 jobs 1 flows 2 agents 16/16 switches 8/8 busiest leaf1:p6 97.0 % hits 99.0 % problems 0");
}

TEST_CASE("operations have the names NCCL users know") {
  CHECK(op_name(1) == "all-reduce");
  CHECK(op_name(10) == "scatter");
  CHECK(op_name(0) == "-");
  CHECK(op_name(999) == "op-999");
}

}  // namespace orrery::ctl
