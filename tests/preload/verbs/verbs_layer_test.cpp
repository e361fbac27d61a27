// The verbs layer on a fake libibverbs: what is changed at RTR and under which conditions, what is counted, and
// everything that must stay as it is.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "common/abi/ecmp_hash_abi.h"
#include "tests/fakes/scratch_directory.h"
#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;

constexpr uint32_t kNoEntry = 0xffffffffu;

orrery_plan_entry entry_to(uint8_t last_byte, uint16_t first_port, uint16_t last_port, uint8_t dscp) {
  orrery_plan_entry entry{};
  entry.flow_id = 1000u + last_byte;
  const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, last_byte};
  std::memcpy(entry.remote_address, peer, 16);
  entry.ordinal = ORRERY_PLAN_ANY_ORDINAL;
  entry.src_port_first = first_port;
  entry.src_port_last = last_port;
  entry.protocol = 17;
  entry.dscp = dscp;
  return entry;
}

std::vector<std::string> lines_with(const std::string& text, const std::string& word) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (line.rfind(word + " ", 0) == 0) lines.push_back(line.substr(word.size() + 1));
  return lines;
}

struct Outcome {
  ProgramResult result;
  std::vector<orrery_event> born, ready, gone;
};

AttachedProbe verbs_probe(const FakeAgent& agent, const std::string& socket, std::vector<std::string> arguments,
                          std::vector<std::pair<std::string, std::string>> environment = {},
                          const std::vector<std::string>& under = {}) {
  arguments.insert(arguments.begin(), probe_path());
  arguments.insert(arguments.begin(), under.begin(), under.end());
  return AttachedProbe(agent, socket, arguments, std::move(environment));
}

Outcome run_verbs(const std::vector<orrery_plan_entry>& plan, const std::vector<std::string>& arguments,
                  std::vector<std::pair<std::string, std::string>> environment = {}) {
  const std::string socket = scratch_socket_path();
  FakeAgent agent(socket, {.plan = plan});
  AttachedProbe probe = verbs_probe(agent, socket, arguments, std::move(environment));
  Outcome outcome;
  outcome.result = probe.finish();
  outcome.born = agent.events_of(ORRERY_EVENT_FLOW_BORN);
  outcome.ready = agent.events_of(ORRERY_EVENT_QP_READY);
  outcome.gone = agent.events_of(ORRERY_EVENT_FLOW_GONE);
  return outcome;
}

struct PathCase {
  const char* what;
  const char* asked;
  const char* seen;
};

// Ports of the plan: to 10.9.0.2 50000 with DSCP 26, to .3 49152, to .4 none with DSCP 26, to .5 none that RoCE can
// use.
const PathCase kPathCases[] = {
    {"as NCCL asks", "", "rc=0 errno=4242 calls=1 label=848 tc=104 state=2"},
    {"the port whose label would be 0", "peer=3", "rc=0 errno=4242 calls=1 label=16385 tc=0 state=2"},
    {"a plan without a port", "peer=4", "rc=0 errno=4242 calls=1 label=0 tc=104 state=2"},
    {"ports that no label gives", "peer=5", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"no plan for the peer", "peer=9", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"a label of the program's own", "label=5", "rc=0 errno=4242 calls=1 label=5 tc=0 state=2"},
    {"a traffic class of the program's own", "tc=8", "rc=0 errno=4242 calls=1 label=848 tc=8 state=2"},
    {"no global route", "global=0", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"UC", "type=3", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"UD", "type=4", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"without address vector", "nomask=128", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"without destination", "nomask=1048576", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"without state", "nomask=1", "rc=0 errno=4242 calls=1 label=0 tc=0 state=1"},
    {"a queue pair that leads to itself", "self=1 peer=1", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"InfiniBand", "device=2", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"RoCE v1", "gid=0", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"an IPv6 source", "gid=2", "rc=0 errno=4242 calls=1 label=848 tc=104 state=2"},
    {"another provider", "device=1", "rc=0 errno=4242 calls=1 label=848 tc=104 state=2"},
    {"a bonded device", "device=3", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"a source on a bond", "gid=3", "rc=0 errno=4242 calls=1 label=0 tc=0 state=2"},
    {"the label is refused", "error=22 failures=1 labelled=1", "rc=0 errno=4242 calls=2 label=0 tc=0 state=2"},
    {"everything is refused", "error=22 failures=9", "rc=22 errno=22 calls=2 label=0 tc=0 state=1"},
    {"the peer does not answer", "error=110 failures=1", "rc=110 errno=110 calls=1 label=848 tc=104 state=1"},
    {"out of memory, once", "error=12 failures=1", "rc=0 errno=4242 calls=2 label=0 tc=0 state=2"},
};

std::vector<orrery_plan_entry> path_plan() {
  std::vector<orrery_plan_entry> plan{entry_to(2, 50000, 50000, 26), entry_to(3, 49152, 49152, 0xff),
                                      entry_to(4, 0, 0, 26), entry_to(5, 40000, 49151, 0xff),
                                      entry_to(1, 50000, 50000, 26)};
  return plan;
}

// Device files of the fake: GID 3 lies on the bond "bond7".
class Sysfs {
 public:
  Sysfs() {
    for (const char* device : {"fake0", "mlx5_0", "ib0", "mlx5_bond_0"}) {
      for (int gid = 0; gid < 4; ++gid) {
        write(std::string("class/infiniband/") + device + "/ports/1/gid_attrs/ndevs/" + std::to_string(gid),
              gid == 3 ? "bond7\n" : "eth7\n");
        write(std::string("class/infiniband/") + device + "/ports/1/gid_attrs/types/" + std::to_string(gid),
              gid == 0 ? "IB/RoCE v1\n" : "RoCE v2\n");
      }
    }
    write("class/net/bond7/bonding/mode", "802.3ad 4\n");
    write("class/net/eth7/mtu", "1500\n");
  }
  std::string path() const { return directory_.file(""); }

 private:
  void write(const std::string& name, const char* text) {
    const std::filesystem::path path = directory_.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  test::ScratchDirectory directory_;
};

std::vector<std::string> path_arguments() {
  std::vector<std::string> arguments{"paths"};
  for (const PathCase& one : kPathCases) arguments.push_back(one.asked);
  return arguments;
}

// What the agent's segment holds for a queue pair.
using Counters = std::map<std::string, uint64_t>;
Counters counters_of(const FakeAgent& agent, uint32_t slot, uint32_t generation) {
  const auto flow = agent.flow(slot);
  const auto qp = agent.qp(slot, generation);
  if (!flow || !qp) return {};
  return {{"tx_bytes", flow->tx_bytes},
          {"rx_bytes", flow->rx_bytes},
          {"bursts", flow->bursts},
          {"posted_sends", qp->posted_sends},
          {"posted_recvs", qp->posted_recvs},
          {"send_completions", qp->send_completions},
          {"recv_completions", qp->recv_completions},
          {"completion_errors", qp->completion_errors},
          {"writes", qp->writes},
          {"write_imms", qp->write_imms},
          {"sends", qp->sends},
          {"reads", qp->reads},
          {"atomics_and_others", qp->atomics_and_others},
          {"control_writes", qp->control_writes},
          {"flush_reads", qp->flush_reads},
          {"zero_imms", qp->zero_imms},
          {"failed_posts", qp->failed_posts}};
}

struct Expectation {
  uint32_t qpn;
  Counters counters;
};

// "17 a=1 b=2"; copies of the library number their queue pairs alike, "17.1" is the second of that number.
Expectation parse_expectation(const std::string& line, size_t* nth) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  const size_t dot = word.find('.');
  *nth = dot != std::string::npos ? 1 : 0;
  Expectation expectation{static_cast<uint32_t>(std::stoul(word)), {}};
  while (words >> word)
    expectation.counters[word.substr(0, word.find('='))] = std::stoull(word.substr(word.find('=') + 1));
  return expectation;
}

bool has(const Counters& seen, const Expectation& expectation) {
  for (const auto& [name, value] : expectation.counters)
    if (const auto found = seen.find(name); found == seen.end() || found->second != value) return false;
  return true;
}

// Runs the command until it has printed "done", and checks its "expect" lines. The rest of its output is returned.
std::string check_counts(const std::vector<std::string>& arguments, fakes::FakeAgentOptions options = {},
                         const std::vector<std::string>& under = {}) {
  const std::string socket = scratch_socket_path();
  options.flowlet_gap_ns = 20'000'000;
  options.shape.flow_slots = 256;
  FakeAgent agent(socket, options);
  AttachedProbe probe = verbs_probe(agent, socket, arguments, {}, under);
  const bool done = probe.program().wait_for_output("done\n");
  const std::string out = probe.program().output();
  const auto expected = lines_with(out, "expect");
  std::map<uint32_t, orrery_event> latest;
  agent.wait_for([&] {
    latest.clear();
    for (const orrery_event& event : agent.events_of(ORRERY_EVENT_QP_READY)) latest[event.qp.qpn] = event;
    return latest.size() >= std::min<size_t>(expected.size(), 1) || agent.hang_ups() > 0;
  });
  CHECK(done);
  CHECK(!expected.empty());
  for (const std::string& line : expected) {
    size_t nth = 0;
    const Expectation expectation = parse_expectation(line, &nth);
    INFO(line);
    if (nth != 0) continue;
    // Of the queue pairs that had this number one after another the latest is meant, whose event may be still to come.
    Counters seen;
    agent.wait_for([&] {
      for (const orrery_event& event : agent.events_of(ORRERY_EVENT_QP_READY))
        if (event.qp.qpn == expectation.qpn) latest[event.qp.qpn] = event;
      if (latest.count(expectation.qpn) == 0) return agent.hang_ups() > 0;
      const auto& qp = latest[expectation.qpn].qp;
      seen = counters_of(agent, qp.slot, qp.generation);
      return has(seen, expectation) || agent.hang_ups() > 0;
    });
    if (latest.count(expectation.qpn) == 0) {
      FAIL_CHECK("this queue pair was never announced");
      continue;
    }
    for (const auto& [name, value] : expectation.counters) {
      INFO(name);
      CHECK(seen.count(name) == 1);
      if (seen.count(name) == 1) CHECK(seen.at(name) == value);
    }
  }
  probe.program().say("\n");
  const ProgramResult result = probe.finish();
  INFO(result.err);
  CHECK(result.status == 0);
  return result.out;
}

}  // namespace

TEST_CASE("source port and traffic class are set exactly under their conditions, on a copy") {
  const Sysfs sysfs;
  std::vector<std::pair<std::string, std::string>> environment{{"FAKE_IBVERBS_SYSFS", sysfs.path()}};
  if (GENERATE(false, true)) environment.emplace_back("FAKE_IBVERBS_NO_GID_EX", "1");  // an older libibverbs
  const Outcome outcome = run_verbs(path_plan(), path_arguments(), environment);
  INFO(outcome.result.err);
  REQUIRE(outcome.result.status == 0);
  const auto seen = lines_with(outcome.result.out, "case");
  REQUIRE(seen.size() == std::size(kPathCases));
  for (size_t i = 0; i < seen.size(); ++i) {
    INFO(kPathCases[i].what);
    CHECK(seen[i] == kPathCases[i].seen);
  }
}

TEST_CASE("without a plan every ibv_modify_qp is made as the program made it") {
  const Outcome outcome = run_verbs({}, path_arguments());
  REQUIRE(outcome.result.status == 0);
  const auto alone = run_program(
      [] {
        auto command = path_arguments();
        command.insert(command.begin(), probe_path());
        return command;
      }(),
      {.preload = false});
  CHECK(outcome.result.out == alone.out);
}

TEST_CASE("a queue pair is announced with the port the kernel will use") {
  const Outcome outcome =
      run_verbs(path_plan(), {"paths", "", "peer=9", "peer=9 label=5", "self=1", "type=3", "device=2"});
  REQUIRE(outcome.born.size() == 5);
  REQUIRE(outcome.ready.size() == 5);
  const auto& planned = outcome.ready[0].qp;
  const auto& born = outcome.born[0].flow;
  CHECK(born.protocol == 17);
  CHECK(born.role == ORRERY_ROLE_CONNECT);
  CHECK(born.local_port == 50000);
  CHECK(born.remote_port == 4791);
  CHECK(born.local_address[15] == 1);
  CHECK(born.remote_address[15] == 2);
  CHECK(born.plan_index == 0);
  CHECK(planned.slot == born.slot);
  CHECK(planned.generation == born.generation);
  CHECK(planned.udp_sport == 50000);
  CHECK(planned.flow_label == 848);
  CHECK(planned.traffic_class == 104);
  CHECK(planned.dest_qpn == 0x4711);
  CHECK(planned.qp_type == 2);
  CHECK(planned.port_num == 1);
  CHECK(std::string(planned.device) == "fake0");
  CHECK((planned.flags & ORRERY_QP_LABEL_OURS) != 0);
  const auto& unplanned = outcome.ready[1].qp;
  uint64_t v = uint64_t{unplanned.qpn} * 0x4711;  // facts: rdma_calc_flow_label
  v ^= v >> 20;
  v ^= v >> 40;
  const auto label = static_cast<uint32_t>(v & 0xfffff);
  CHECK(unplanned.udp_sport == (0xc000 | ((label & 0x3fff) ^ (label >> 14))));
  CHECK(unplanned.flow_label == 0);
  CHECK(unplanned.plan_index == kNoEntry);
  CHECK((unplanned.flags & ORRERY_QP_LABEL_OURS) == 0);
  CHECK(outcome.ready[2].qp.udp_sport == 0xc005);
  CHECK((outcome.ready[3].qp.flags & ORRERY_QP_LOOPBACK) != 0);
  CHECK(outcome.ready[4].qp.qp_type == 3);
}

TEST_CASE("the source port wins every hop of the planned path, hashed as UDP") {
  orrery_plan_entry entry = entry_to(2, 49152, 65535, 0xff);
  entry.hop_count = 2;
  entry.hops[0] = {.seed = 77, .group_size = 4, .member = 2, .hash_function = ORRERY_HASH_MURMUR_5TUPLE};
  entry.hops[1] = {.seed = 99, .group_size = 8, .member = 5, .hash_function = ORRERY_HASH_MURMUR_5TUPLE};
  const Outcome outcome = run_verbs({entry}, {"paths", "", "", "", "", ""});
  REQUIRE(outcome.born.size() == 5);
  for (const orrery_event& event : outcome.born) {
    CHECK(event.flow.plan_index == 0);
    for (int hop = 0; hop < 2; ++hop) {
      const uint32_t hash =
          orrery_ecmp_hash(entry.hops[hop].seed, 0x0a090001, 0x0a090002, event.flow.local_port, 4791, 17);
      CHECK(orrery_ecmp_member(hash, entry.hops[hop].group_size) == entry.hops[hop].member);
    }
  }
}

TEST_CASE("queue pairs are numbered by peer, and keep their number over a timeout and a reset") {
  orrery_plan_entry first = entry_to(2, 50001, 50001, 0xff), second = first, third = first;
  first.ordinal = 0;
  second.ordinal = 1;
  second.src_port_first = second.src_port_last = 50002;
  third.ordinal = 2;
  third.src_port_first = third.src_port_last = 50003;
  // Neither a queue pair that leads to itself, nor UC, nor one to another peer counts.
  const Outcome outcome = run_verbs({first, second, third},
                                    {"paths", "self=1", "error=110 failures=1 again=1", "type=3", "peer=9", "", ""});
  CHECK(lines_with(outcome.result.out, "again") == std::vector<std::string>{"0"});
  REQUIRE(outcome.ready.size() == 6);
  CHECK(outcome.ready[1].qp.udp_sport == 50001);
  CHECK(outcome.ready[4].qp.udp_sport == 50002);
  CHECK(outcome.ready[5].qp.udp_sport == 50003);
  const Outcome cycled = run_verbs({first, second, third}, {"cycles"});
  REQUIRE(cycled.ready.size() == 4);
  for (int i = 0; i < 3; ++i) {
    CHECK(cycled.ready[i].qp.udp_sport == 50001);
    CHECK(cycled.ready[i].qp.cycle == static_cast<uint32_t>(i));
    CHECK(cycled.ready[i].qp.qpn == cycled.ready[0].qp.qpn);
  }
  CHECK(cycled.ready[3].qp.udp_sport == 50002);
}

TEST_CASE("a reset or a destroyed queue pair is a flow that has gone") {
  const std::string out = check_counts({"cycles"});
  CHECK(out.find("destroyed 0") != std::string::npos);
  const Outcome outcome = run_verbs({}, {"cycles"});
  REQUIRE(outcome.born.size() == 4);
  REQUIRE(outcome.gone.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(outcome.gone[i].flow.slot == outcome.born[i].flow.slot);
    CHECK(outcome.gone[i].flow.generation == outcome.born[i].flow.generation);
  }
}

TEST_CASE("every kind of request and completion is counted exactly") {
  const std::string out = check_counts({"counts"});
  CHECK(lines_with(out, "freed") == std::vector<std::string>{"0 0 0", "0 0 0"});
  CHECK(lines_with(out, "partial") == std::vector<std::string>{"12 1", "12 1"});
  CHECK(lines_with(out, "single") == std::vector<std::string>{"12", "12"});
  CHECK(lines_with(out, "receives") == std::vector<std::string>{"22 1", "22 1"});
}

TEST_CASE("threads that post to and poll for one queue pair are counted exactly") {
  check_counts({"threads"});
}

TEST_CASE("where the kernel lends no barrier, threads that share a queue pair are counted exactly, too") {
  check_counts({"threads"}, {}, {ORRERY_FORBID, "membarrier", "deny"});
}

TEST_CASE("extended queue pairs and completion queues are counted exactly, and work as without us") {
  const std::string out = check_counts({"extended"});
  const auto alone = run_program({probe_path(), "extended"}, {.preload = false});
  CHECK(out == alone.out);
}

TEST_CASE("contexts of every opener and queue pairs of every maker are followed") {
  check_counts({"routes"});
}

TEST_CASE("more queue pairs than the table holds come and go") {
  const std::string out = check_counts({"many-qps"});
  CHECK(lines_with(out, "lost").empty());
}

TEST_CASE("a table of functions that is not understood is left alone") {
  const std::string out = check_counts({"broken-table"});
  CHECK(out.find("untouched 1\n") != std::string::npos);
}

TEST_CASE("closing a device puts back what we changed and nothing else") {
  const std::string out = run_verbs({}, {"closing"}).result.out;
  CHECK(out.find("busy 16 hooked again 1\n") != std::string::npos);
  CHECK(out.find("left alone 1 1\n") != std::string::npos);
  CHECK(out.find("closed 0\n") != std::string::npos);
  CHECK(lines_with(out, "lost").empty());
}

TEST_CASE("libraries that are looked up with dlvsym are followed, each copy by itself") {
  const test::ScratchDirectory directory;
  std::vector<std::string> arguments{"copies"};
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directories(directory.file(name));
    const std::filesystem::path copy = directory.file(name + std::string("/libibverbs.so.1"));
    std::filesystem::copy_file(ORRERY_FAKE_IBVERBS, copy);
    arguments.push_back(copy.string());
  }
  const std::string out = check_counts(arguments, {.plan = {entry_to(2, 50000, 50000, 0xff)}});
  CHECK(lines_with(out, "modify") == std::vector<std::string>{"0 label 848 calls 1", "0 label 848 calls 2",
                                                              "0 label 848 calls 1", "0 label 848 calls 2"});
}

TEST_CASE("requests for the older ABI of libibverbs get the library's own bodies") {
  const auto with = run_program({probe_path(), "old-abi"});
  CHECK(with.out == "linked 1000 1\nlooked up 1000\nlooked up 1000\nold calls 4\n");
}

TEST_CASE("a program sees no difference") {
  const auto alone = run_program({probe_path(), "tour"}, {.preload = false});
  REQUIRE(alone.status == 0);
  CHECK(run_program({probe_path(), "tour"}).out == alone.out);
  CHECK(run_program({probe_path(), "tour"}, {.environment = {{"ORRERY_DISABLE", "1"}}}).out == alone.out);
  CHECK(run_verbs(path_plan(), {"tour"}).result.out == alone.out);
}

TEST_CASE("a switched off library leaves the tables of functions alone") {
  const auto off = run_program({probe_path(), "closing"}, {.environment = {{"ORRERY_DISABLE", "1"}}});
  const auto alone = run_program({probe_path(), "closing"}, {.preload = false});
  CHECK(off.out == alone.out);
}

TEST_CASE("a forked child's posts are not the parent's") {
  const std::string out = check_counts({"fork-child"});
  CHECK(out.find("child 0\n") != std::string::npos);
}

TEST_CASE("an agent of version 1 hears of flows only") {
  const std::string socket = scratch_socket_path();
  FakeAgent agent(socket, {.abi_version = 1, .plan = path_plan()});
  AttachedProbe probe = verbs_probe(agent, socket, {"paths", ""});
  const auto result = probe.finish();
  CHECK(lines_with(result.out, "case") == std::vector<std::string>{kPathCases[0].seen});
  CHECK(agent.count_of(ORRERY_EVENT_FLOW_BORN) == 1);
  CHECK(agent.count_of(ORRERY_EVENT_QP_READY) == 0);
}

TEST_CASE("posting and polling make no system call") {
  const Outcome outcome = run_verbs({}, {"syscalls"});
  REQUIRE(outcome.result.status == 0);
  // A look at the connection is due every 250 ms, however long the 40,000 calls take here.
  CHECK(values_of(outcome.result.out, "syscalls").at(0) < 100);
}

}  // namespace orrery
