#include "tools/sim/scenario/scenario.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/fakes/scratch_directory.h"
#include "tests/unit/sim/workload_samples.h"

namespace orrery::sim {
namespace {

Result<Traffic> traffic_on(const Scenario& scenario, const fabric::Graph& graph) {
  constexpr uint64_t kPlenty = 10'000'000;
  const auto placed = placed_jobs(scenario, graph, kPlenty);
  return placed ? traffic_of(scenario, *placed) : placed.error();
}

std::string refusal(const std::string& yaml) {
  const auto scenario = parse_scenario(yaml, "s.yaml");
  return scenario ? "taken" : scenario.error().message;
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = samples::kScenario;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a scenario says what runs, where and how") {
  const Scenario scenario = parse_scenario(samples::kScenario, "s.yaml").value();
  CHECK(scenario.schemes.size() == 2);
  CHECK(scenario.seeds == std::vector<uint64_t>{1, 2});
  CHECK(scenario.placement == Placement::kFragmented);
  CHECK(scenario.packet.threads == 2);
  CHECK(scenario.packet.ecn.kmin_bytes == 100'000);
  CHECK_FALSE(scenario.packet.dcqcn.enabled);
  CHECK(scenario.packet.transport.ack_every == 4);
  CHECK(scenario.clock_error == 100 * kPerNs);
  REQUIRE(scenario.jobs.size() == 2);
  CHECK(scenario.jobs[0].job.steps[0].overlapped);
  CHECK(scenario.jobs[0].job.steps[1].group == Group{4, 2});

  const fabric::Graph graph = graph_of(scenario).value();
  const Traffic traffic = traffic_on(scenario, graph).value();
  REQUIRE(check(traffic, 8));
  CHECK(traffic.jobs == std::vector<std::string>{"train", "pinned"});
  CHECK(traffic.rounds.size() == 3);
  std::set<uint32_t> train, pinned;
  for (const Flow& flow : traffic.flows) (flow.job == 0 ? train : pinned).insert(flow.src);
  CHECK(pinned == std::set<uint32_t>{0, 1});
  CHECK(train == std::set<uint32_t>{2, 4, 5, 6});  // fragmented: by turns from both leaves, without the named ones

  const PacketConfig config = packet_config(scenario, graph, Scheme::kSpray, 9).value();
  CHECK(config.seed == 9);
  CHECK(config.transport.recovery == Recovery::kSelectiveRepeat);
  REQUIRE(config.faults.size() == 2);
  CHECK(config.faults[1].link == graph.link(config.faults[0].link).reverse);
  CHECK(packet_config(scenario, graph, Scheme::kEcmp, 9).value().transport.recovery == Recovery::kGoBackN);

  const auto errors = clock_errors(scenario, graph, 1);
  REQUIRE(errors.size() == 8);
  for (const int64_t error : errors) CHECK(std::abs(error) <= 100'000);
  CHECK(errors == clock_errors(scenario, graph, 1));
  CHECK(errors != clock_errors(scenario, graph, 2));
}

TEST_CASE("every mistake of a scenario is reported at once, with line and key") {
  const std::string message = refusal(R"(topology: {leaf_spine: {leavs: 2}}
schemes: [ecmp, orrey]
seeds: 0
jobs:
  - name: a
    hosts: many
    steps:
      - {op: all_redcue, bytes: 10}
      - {op: all_to_all, algorithm: ring, bytes: 10}
      - {bytes: 10}
      - {}
  - hosts: 6
    jitter: 3
    steps: [{op: all_gather, bytes: 8, group: {size: 4}}, {op: all_gather, algorithm: halving_doubling, bytes: 8}]
engine: {kind: packt, ecn: {kmin_bytes: 5, kmax_bytes: 4}, transport: {payload_bytes: 70000}}
faults: [{link: leaf1, pausing_nic: h1}]
clock_error: 5
min_stagger_us: 6
max_stagger_us: 5
)");
  CAPTURE(message);
  for (const char* part :
       {"s.yaml:1: topology.leaf_spine: unknown key 'leavs'", "did you mean 'leaves'?",
        "s.yaml:2: schemes: 'orrey' is unknown", "s.yaml:3: seeds: '0' is out of range; give 1 to 10000",
        "s.yaml:6: jobs[0].hosts: 'many' is not a whole number",
        "s.yaml:8: jobs[0].steps[0].op: 'all_redcue' is unknown", "did you mean 'all_reduce'?",
        "s.yaml:10: jobs[0].steps[2].op: is missing", "s.yaml:11: jobs[0].steps[3]: does nothing",
        "s.yaml:13: jobs[1].jitter: '3' is out of range; give 0 to 1",
        "s.yaml:14: jobs[1].steps[0].group: groups of 4 ranks, 1 apart, do not divide the 6 ranks",
        "s.yaml:14: jobs[1].steps[1]: all_gather by halving_doubling: 6 ranks are no power of two",
        "s.yaml:15: engine.kind: 'packt' is unknown", "s.yaml:15: engine.ecn.kmin_bytes: 5 is above kmax_bytes 4",
        "s.yaml:15: engine.transport.payload_bytes: '70000' is out of range", "s.yaml:16: faults[0].at_us: is missing",
        "s.yaml:16: faults[0].link: give either this", "s.yaml:17: unknown key 'clock_error'",
        "s.yaml:18: min_stagger_us: is above max_stagger_us"})
    CHECK(message.find(part) != std::string::npos);
}

TEST_CASE("a scenario that contradicts its fabric is refused when they meet") {
  const auto meets = [](const std::string& yaml) {
    const auto read = parse_scenario(yaml, "s.yaml");
    INFO((read ? "" : read.error().message));
    REQUIRE(read);
    const Scenario& scenario = *read;
    const fabric::Graph graph = graph_of(scenario).value();
    if (const auto traffic = traffic_on(scenario, graph); !traffic) return traffic.error().message;
    const auto config = packet_config(scenario, graph, Scheme::kEcmp, 1);
    return config ? std::string("taken") : config.error().message;
  };
  CHECK(meets(samples::kScenario) == "taken");
  CHECK(meets(replaced("[h1,", "[h99,")).find("s.yaml: the fabric has no host 'h99'") == 0);
  CHECK(meets(replaced("hosts: 4", "hosts: 8"))
            .find("s.yaml: job train needs 8 hosts, and 6 of the fabric's 8 are left") == 0);
  CHECK(meets(replaced("leaf1:p5", "leaf7:p5")).find("s.yaml: faults: the fabric has no port 'leaf7:p5'") == 0);
  CHECK(meets(replaced("link: \"leaf1:p5\"", "pausing_nic: \"h3:eth0\"")) == "taken");
  CHECK(meets(replaced("link: \"leaf1:p5\"", "switch: h3")).find("s.yaml: faults: the fabric has no switch 'h3'") == 0);
  CHECK(meets(replaced("link: \"leaf1:p5\"", "pausing_nic: \"leaf1:p5\"")) ==
        "s.yaml: faults: 'leaf1:p5' is no NIC; write HOST:NIC, such as h5:eth0");
  CHECK(meets("engine: {kind: fluid}\nfaults: [{at_us: 1, pausing_nic: \"h3:eth0\"}]\n" +
              samples::kScenario.substr(0, samples::kScenario.find("engine:"))) ==
        "s.yaml: faults: the fluid engine has no pauses; take the packet engine for pausing_nic");
  CHECK(meets(replaced("h2:eth0", "h1:eth0")) ==
        "s.yaml: job pinned: host 'h1:eth0' stands there twice; use ranks_per_host");
}

TEST_CASE("a switch that fails takes all its cables with it, both ways") {
  const Scenario scenario = parse_scenario(replaced("link: \"leaf1:p5\"", "switch: spine1"), "s.yaml").value();
  const fabric::Graph graph = graph_of(scenario).value();
  std::set<fabric::LinkId> failed, expected;
  const PacketConfig config = packet_config(scenario, graph, Scheme::kEcmp, 1).value();
  for (const Fault& fault : config.faults) failed.insert(fault.link);
  for (fabric::LinkId link = 0; link < graph.links().size(); ++link)
    if (graph.node(graph.link(link).from).name == "spine1" || graph.node(graph.link(link).to).name == "spine1")
      expected.insert(link);
  CHECK(failed == expected);
}

TEST_CASE("what is down carries nothing, in either direction") {
  const Scenario scenario =
      parse_scenario(replaced("topology: {", "topology: {down: [spine1, \"leaf2:p6\"], "), "s.yaml").value();
  const fabric::Graph graph = graph_of(scenario).value();
  std::set<std::string> down;
  for (fabric::LinkId link = 0; link < graph.links().size(); ++link)
    if (!graph.link(link).up) down.insert(graph.link_name(link));
  CHECK(down == std::set<std::string>{"spine1:p1", "spine1:p2", "leaf1:p5", "leaf2:p5", "leaf2:p6", "spine2:p2"});
  const auto wrong = graph_of(parse_scenario(replaced("topology: {", "topology: {down: [spine9], "), "s.yaml").value());
  CHECK(wrong.error().message.find("s.yaml: topology.down: the fabric has no 'spine9'; write") == 0);
}

TEST_CASE("an engine for a rate has thresholds in proportion, but for those that are given") {
  const Scenario scenario =
      parse_scenario(replaced("engine: {", "engine: {for_rate_bps: 400000000000, "), "s.yaml").value();
  CHECK(scenario.packet.ecn.kmin_bytes == 100'000);
  CHECK(scenario.packet.ecn.kmax_bytes == 6'400'000);
  CHECK(scenario.packet.pfc.xoff_bytes == 1'600'000);
  CHECK(scenario.packet.dcqcn.additive_bps == 160e6);
}

TEST_CASE("what a scenario needs is asked for") {
  CHECK(refusal("").find("is empty") != std::string::npos);
  CHECK(refusal("seeds: 1\n").find("topology: is missing") != std::string::npos);
  CHECK(refusal("seeds: 1\n").find("nothing to run; give jobs or a workload file") != std::string::npos);
  CHECK(refusal(replaced("topology: {", "topology: {file: x, ")).find("give one of file and leaf_spine") !=
        std::string::npos);
  CHECK(refusal("topology: {file: t}\nworkload: {file: w}\n").find("workload.format: is missing") != std::string::npos);
  CHECK(refusal("topology: {file: t}\nworkload: {file: w, format: chakra, ranks: 4}\n") == "taken");
}

TEST_CASE("a scenario says how flows of the fluid engine share links") {
  const std::string fabric = "topology: {leaf_spine: {leaves: 2, spines: 1, hosts: 4}}\n";
  const std::string job = "jobs: [{hosts: 2, steps: [{op: all_reduce, bytes: 1000000}]}]\n";
  const auto sharing = [&](const std::string& name) {
    return parse_scenario(fabric + job + "engine: {kind: fluid, sharing: " + name + "}\n", "s.yaml").value().sharing;
  };
  CHECK(sharing("max_min") == Sharing::kMaxMin);
  CHECK(sharing("windows") == Sharing::kWindows);
  CHECK(sharing("dcqcn") == Sharing::kDcqcn);
}

TEST_CASE("the example of the reference page is a scenario, and the page names every key") {
  std::ifstream file(ORRERY_SCENARIO_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t begin = page.find("```yaml\n") + 8, end = page.find("```", begin);
  REQUIRE(end != std::string::npos);
  CHECK(refusal(page.substr(begin, end - begin)) == "taken");
  // Every key is one that an unknown one is told of.
  const std::string keys = refusal(R"(zzzzzzzz: 1
topology: {zzzzzzzz: 1, leaf_spine: {zzzzzzzz: 1}}
placement: {zzzzzzzz: 1}
jobs: [{zzzzzzzz: 1, hosts: 2, steps: [{zzzzzzzz: 1, compute_us: 1, group: {zzzzzzzz: 1, size: 1}}]}, {workload: {zzzzzzzz: 1}}]
workload: {zzzzzzzz: 1}
engine: {zzzzzzzz: 1, transport: {zzzzzzzz: 1}, switch: {zzzzzzzz: 1}, ecn: {zzzzzzzz: 1}, pfc: {zzzzzzzz: 1}, dcqcn: {zzzzzzzz: 1}, paths: {zzzzzzzz: 1}, telemetry: {zzzzzzzz: 1}}
faults: [{zzzzzzzz: 1}]
five_tuples: [{zzzzzzzz: 1}]
)");
  size_t lists = 0;
  for (size_t at = 0; (at = keys.find("the keys here are ", at)) != std::string::npos; ++lists) {
    at += 18;
    const std::string list = keys.substr(at, keys.find('\n', at) - at);
    for (size_t start = 0; start < list.size();) {
      const size_t comma = std::min(list.find(", ", start), list.size());
      const std::string key = list.substr(start, comma - start);
      CAPTURE(key);
      CHECK(page.find("`" + key + "`") != std::string::npos);
      start = comma + 2;
    }
  }
  CHECK(lists == 19);
}

TEST_CASE("connections that are known take the paths that the switches hash them to") {
  const std::string known = samples::kScenario +
                            "five_tuples:\n"
                            "  - {from: \"10.0.1.1:40000\", to: \"10.0.1.2:5000\", protocol: tcp}\n"
                            "  - {from: \"10.0.1.1:41000\", to: \"10.0.2.1:5000\", protocol: tcp}\n"
                            "  - {from: \"10.0.1.1:42000\", to: \"10.0.2.1:5000\"}\n";
  const Scenario scenario = parse_scenario(known, "s.yaml").value();
  const fabric::Graph graph = graph_of(scenario).value();
  const auto host_of = [&](const char* name) {
    for (uint32_t i = 0; i < graph.nics().size(); ++i)
      if (graph.node(graph.nics()[i].host).name == name) return i;
    return kNone;
  };
  Traffic traffic;
  traffic.jobs.emplace_back();
  for (int i = 0; i < 2; ++i) traffic.add_flow({.src = host_of("h1"), .dst = host_of("h5")});
  const auto routed = route(traffic, graph, Scheme::kEcmp, scenario.scheme_options).value();
  const auto address = [](const char* text) { return IpAddress::parse(text).value(); };
  CHECK(routed.flows[0].qps[0].paths[0] ==
        graph.ecmp_path({address("10.0.1.1"), address("10.0.2.1"), 41'000, 5'000, 6}));
  CHECK(routed.flows[1].qps[0].paths[0] ==
        graph.ecmp_path({address("10.0.1.1"), address("10.0.2.1"), 42'000, 5'000, 17}));
  CHECK(refusal(known + "  - {from: \"10.0.1.1\", to: \"10.0.1.2:70000\", protocol: sctp}\n") ==
        "s.yaml:24: five_tuples[3].from: is '10.0.1.1'; write an address and a port, such as \"10.0.1.1:40000\"\n"
        "s.yaml:24: five_tuples[3].to: is '10.0.1.2:70000'; write an address and a port, such as \"10.0.1.1:40000\"\n"
        "s.yaml:24: five_tuples[3].protocol: 'sctp' is unknown; take tcp, udp, did you mean 'tcp'?");
}

TEST_CASE("jobs may come from files, each placed like any other") {
  const test::ScratchDirectory folder;
  std::ofstream(folder.file("a.csv")) << samples::kAicb;  // 8 ranks
  const std::string head = "topology: {leaf_spine: {leaves: 2, spines: 2, hosts: 16}}\nplacement: {kind: fragmented}\n";
  const auto meets = [&](const std::string& jobs) {
    const auto scenario = parse_scenario(head + "jobs:\n" + jobs, folder.file("s.yaml"));
    INFO((scenario ? "" : scenario.error().message));
    REQUIRE(scenario);
    return traffic_on(*scenario, graph_of(*scenario).value());
  };
  const std::string file = "workload: {file: a.csv, format: aicb}";
  const Traffic traffic = meets("  - {name: a, ranks_per_host: 2, iterations: 3, " + file +
                                "}\n"
                                "  - {name: b, hosts: [h1, h2], ranks_per_host: 4, start_us: 5, " +
                                file + "}\n  - {hosts: 2, steps: [{op: all_reduce, bytes: 8}]}\n")
                              .value();
  CHECK(check(traffic, 16));
  CHECK(traffic.jobs == std::vector<std::string>{"a", "b", "job3"});
  std::vector<size_t> rounds(3);
  for (const Round& round : traffic.rounds) ++rounds[round.job];
  CHECK(rounds == std::vector<size_t>{3, 1, 1});
  std::vector<std::set<uint32_t>> hosts(3);
  for (const Flow& flow : traffic.flows) hosts[flow.job].insert(flow.src);
  CHECK(hosts[1] == std::set<uint32_t>{0, 1});
  CHECK(hosts[0] == std::set<uint32_t>{2, 8, 9, 10});  // by turns from both leaves, without the named ones
  CHECK(hosts[2].size() == 2);
  // What does not fit together is told.
  CHECK(meets("  - {name: a, hosts: 3, ranks_per_host: 2, " + file + "}\n").error().message ==
        folder.file("s.yaml") +
            ": job a: a.csv needs 4 hosts with 2 ranks each, and hosts says 3; correct it or ranks_per_host, or leave "
            "hosts out");
  const auto wrong = [&](const std::string& job) { return refusal(head + "jobs: [" + job + "]\n"); };
  CHECK(wrong("{" + file + ", steps: [{compute_us: 1}]}") ==
        "s.yaml:3: jobs[0].steps: does not go with workload: the file says what the job does");
  CHECK(wrong("{workload: {file: a.cm, format: htsim}}").find("s.yaml:3: jobs[0].workload.format: is no job's") == 0);
  CHECK(wrong("{workload: {format: aicb}}") == "s.yaml:3: jobs[0].workload.file: is missing; name the workload's file");
  CHECK(wrong("{workload: {file: a, format: aicb, iterations: 3}}").find("unknown key 'iterations'") !=
        std::string::npos);
  CHECK(wrong("{steps: [{compute_us: 1}]}").find("jobs[0].hosts: is missing") != std::string::npos);
}

TEST_CASE("rounds replace the iterations of every job") {
  const Scenario scenario = parse_scenario(samples::kScenario + "rounds: 5\n", "s.yaml").value();
  for (const ScenarioJob& job : scenario.jobs) CHECK(job.job.iterations == 5);
  const Scenario file =
      parse_scenario("topology: {file: t}\nrounds: 5\njobs: [{iterations: 2, workload: {file: a, format: aicb}}]\n",
                     "s.yaml")
          .value();
  CHECK(file.jobs[0].workload->options.iterations == 5);
}

}  // namespace orrery::sim
