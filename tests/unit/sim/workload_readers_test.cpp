#include "tools/sim/workload/readers.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "tests/unit/sim/fixtures.h"
#include "tests/unit/sim/workload_samples.h"
#include "tools/sim/model/lowering.h"

namespace orrery::sim {
namespace {

std::vector<uint32_t> in_order(uint32_t hosts) {
  std::vector<uint32_t> order(hosts);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

Traffic traffic_of(const Workload& workload) {
  return traffic_of(workload, in_order(workload.hosts)).value();
}

RunResult run(const Traffic& traffic, const fabric::Graph& graph) {
  std::vector<FlowRoute> routes;
  for (const Flow& flow : traffic.flows) {
    FlowRoute route;
    route.qps.push_back({{graph.paths(graph.nics()[flow.src], graph.nics()[flow.dst])[0]}, PathPolicy::kStatic});
    routes.push_back(route);
  }
  return run_packets(graph, lower(traffic, routes, graph).value(), plain_config());
}

std::string refusal(Result<Workload> (*read)(const Input&, const ReadOptions&), const std::string& text,
                    const ReadOptions& options = {}) {
  const auto workload = read({"f", text}, options);
  return workload ? "taken" : workload.error().message;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Recorded by others, and not ours to copy; nothing where it is absent.
std::string shared(const std::string& file) {
  const char* folder = std::getenv("ORRERY_SHARED_DATA");
  const std::string path = (folder != nullptr ? std::string(folder) : ORRERY_SHARED_DATA) + "/workloads/" + file;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace

TEST_CASE("a workload of every format runs to its end") {
  for (const auto& [format, inputs] : samples::all()) {
    ReadOptions options;
    if (format == Format::kSimai) options.ranks = 4;
    CAPTURE(name_of(format));
    const auto workload = read_workload(format, inputs, options);
    INFO((workload ? "" : workload.error().message));
    REQUIRE(workload);
    const auto graph = leaf_spine(2, 2, 8);
    const Traffic traffic = traffic_of(*workload);
    CHECK(tasks_of(*workload) >= traffic.tasks.size());
    const RunResult result = run(traffic, graph);
    CHECK(result.totals.delivered_messages == traffic.transfers.size());
    for (const RoundTimes& round : round_times(traffic, result.step_done_at)) CHECK(round.end != kNever);
    CHECK(format_of(name_of(format)) == format);
  }
}

TEST_CASE("AICB: set-up, iterations, groups and counts") {
  const Workload workload = read_aicb({"dir/run.csv", samples::kAicb}, {}).value();
  REQUIRE(workload.jobs.size() == 1);
  const Job& job = workload.jobs[0];
  CHECK(job.name == "run.csv");
  CHECK(job.ranks() == 8);
  CHECK(job.iterations == 1);
  REQUIRE(job.setup.size() == 1);
  CHECK(job.setup[0].group == Group{4, 2});
  REQUIRE(job.steps.size() == 5);
  CHECK(job.steps[0].group == Group{2, 1});
  CHECK(job.steps[1].compute == 25 * kPerUs);
  CHECK(job.steps[2].collective->op == Op::kReduceScatter);
  CHECK(job.steps[3].collective->bytes == 1'048'576);
  CHECK(job.steps[4].group == Group{8, 1});
}

TEST_CASE("AICB: epochs that are alike are iterations, epochs that differ are one") {
  const size_t second = samples::kAicb.find("CommType.all_gather");
  const std::string epoch = samples::kAicb.substr(second);
  const Job twice = read_aicb({"f", samples::kAicb + epoch}, {}).value().jobs[0];
  CHECK(twice.iterations == 2);
  CHECK(twice.steps.size() == 5);
  const Job differing = read_aicb({"f", samples::kAicb + replaced(epoch, "65536", "65537")}, {}).value().jobs[0];
  CHECK(differing.iterations == 1);
  CHECK(differing.steps.size() == 10);
}

TEST_CASE("AICB: mistakes name line, reason and cure") {
  const auto with = [&](const std::string& from, const std::string& to) {
    return refusal(read_aicb, replaced(samples::kAicb, from, to));
  };
  CHECK(with("CommType.broadcast", "CommType.gossip").find("f:3: comm_type 'gossip' is unknown; take all_reduce") == 0);
  CHECK(with("4,1024", "3,1024") == "f:7: 'dp_group' has 4 ranks here and 3 further up; split the file");
  CHECK(with("2,65536", "2,-1") == "f:5: msg_size '-1' is no number of bytes");
  CHECK(with(",None,0,,None,None,None,1\n", "\n").find("taken") == 0);  // what is not needed may be missing
  CHECK(with(",4,1024,init,None,0,,None,None,None,1", "") ==
        "f:3: 2 fields, fewer than the header has; is the file cut off?");
  CHECK(with("comm_type,", "kind,").find("f:2: a line before the header") == 0);
  CHECK(with("rank7]", "rank6]").find("f:3: groups of 4 ranks, 1 apart, do not divide 7 ranks") == 0);
  CHECK(with("rank7]", "rank99999999999]").find("f:1: ") == 0);
  CHECK(refusal(read_aicb, "") == "f: has no header; AICB's begins with comm_type,comm_group,comm_group_size,msg_size");
  ReadOptions small;
  small.max_tasks = 2;
  CHECK(refusal(read_aicb, samples::kAicb, small).find(": more than 2 lines' worth of steps") == 3);
}

TEST_CASE("SimAI: passes, groups and overlap") {
  ReadOptions options;
  options.ranks = 8;
  const Job job = read_simai({"f", samples::kSimai}, options).value().jobs[0];
  REQUIRE(job.steps.size() == 6);
  CHECK(job.steps[0].compute == 1 * kPerUs);
  CHECK(job.steps[1].collective->op == Op::kAllGather);
  CHECK(job.steps[1].group == Group{2, 1});
  CHECK(job.steps[2].compute == 4 * kPerUs);  // backwards: the last layer first
  CHECK(job.steps[3].overlapped);
  CHECK(job.steps[3].group == Group{4, 2});
  CHECK(job.steps[3].compute == 105 * kPerNs);
}

TEST_CASE("SimAI: mistakes name line, reason and cure") {
  ReadOptions options;
  options.ranks = 8;
  const auto with = [&](const std::string& from, const std::string& to) {
    return refusal(read_simai, replaced(samples::kSimai, from, to), options);
  };
  CHECK(with("\n2\n", "\n3\n") == "f: has 2 layers and announces 3; is it cut off?");
  CHECK(with("ALLGATHER", "GOSSIP").find("f:4: the collective 'GOSSIP' is unknown; take NONE, ALLREDUCE") == 0);
  CHECK(with("\t1048576\t100", "").find("f:4: 10 fields; a layer has 12") == 0);
  CHECK(with("3000", "3e99").find("f:4: '3e99' is no time") == 0);
  CHECK(with("HYBRID", "hybrid").find("f:1: 'hybrid_TRANSFORMER_FWD_IN_BCKWD' is no kind of workload") == 0);
  CHECK(refusal(read_simai, samples::kSimai) == "f: does not say how many ranks there are (all_gpus:); give ranks");
}

TEST_CASE("htsim: triggers are waits on the host where they are known") {
  const Workload workload = read_htsim({"f", samples::kHtsim}, {}).value();
  CHECK(workload.hosts == 4);
  const Traffic& traffic = workload.fixed;
  REQUIRE(traffic.transfers.size() == 4);
  CHECK(traffic.tasks[2].delay == 5 * kPerUs);
  const RunResult result = run(traffic, leaf_spine(1, 1, 4));
  CHECK(result.released_at[1] == result.delivered_at[0]);
  CHECK(result.released_at[3] > result.delivered_at[1]);  // acknowledged first
}

TEST_CASE("htsim: mistakes name line, reason and cure") {
  const auto with = [&](const std::string& from, const std::string& to) {
    return refusal(read_htsim, replaced(samples::kHtsim, from, to));
  };
  CHECK(with("Connections 4", "Connections 5") == "f: announces 5 connections and has 4; is it cut off?");
  CHECK(with("2->0", "2->9") == "f:6: 2->9: there are 4 nodes, from 0");
  CHECK(with("size 100000", "size 0").find("f:4: no size, which htsim takes for a transfer without end") == 0);
  CHECK(with("start 0", "strat 0").find("f:4: 'strat' is unknown; a connection takes id, start") == 0);
  CHECK(with("start 0 ", "").find("f:4: neither start nor trigger") == 0);
  CHECK(with("count 1", "count 2").find("f:9: trigger 2 is set off by 1 connections and fires after 2") == 0);
  CHECK(with("Triggers 2", "Triggers 1") == "f: announces 1 triggers and has 2; is it cut off?");
  CHECK(with("1->3", "0->3").find("trigger 2 is set off by 1->2 (line 5) and starts a transfer of host 0") !=
        std::string::npos);
  CHECK(with("2->0", "2->2") == "f:6: 2->2 goes nowhere");
  CHECK(with("trigger id 1 oneshot", "failure switch_id 1").find("list them under faults") != std::string::npos);
}

TEST_CASE("nccl-tests: sizes, hosts, and the operation from its bandwidth factor or its name") {
  const Job job = read_nccl_tests({"f", samples::kNcclTests}, {}).value().jobs[0];
  CHECK(job.ranks() == 4);
  CHECK(job.ranks_per_host == 2);
  REQUIRE(job.steps.size() == 2);
  CHECK(job.steps[0].collective->op == Op::kAllReduce);
  CHECK(job.steps[1].collective->bytes == 2'097'152);
  const Job named =
      read_nccl_tests({"f", "$ ./build/reduce_scatter_perf -b 1M\n" + samples::kNcclTests}, {}).value().jobs[0];
  CHECK(named.steps[0].collective->op == Op::kReduceScatter);
  ReadOptions options;
  options.op = Op::kAllToAll;
  CHECK(read_nccl_tests({"f", samples::kNcclTests}, options).value().jobs[0].steps[0].collective->op == Op::kAllToAll);
}

TEST_CASE("nccl-tests: mistakes name line, reason and cure") {
  CHECK(refusal(read_nccl_tests, "hello\n") == "f: has no results; is it what a nccl-tests program printed?");
  CHECK(refusal(read_nccl_tests, "  1024  256 float sum\n").find("f:1: 4 fields; a result has at least 8") == 0);
  CHECK(refusal(read_nccl_tests, " 1024 256 float none -1 1.0 2.0 2.0 0\n") == "f: has no '# Rank' lines; give ranks");
  ReadOptions options;
  options.ranks = 8;
  CHECK(refusal(read_nccl_tests, " 1024 256 float none -1 1.0 2.0 1.75 0\n", options) ==
        "f: does not say which collective it measured; give op");
  CHECK(refusal(read_nccl_tests, "./gather_perf\n 1024 256 float none 0 1.0 2.0 1.75 0\n", options) ==
        "f: is of gather_perf, which is not simulated; give what to take in its place (op)");
  CHECK(refusal(read_nccl_tests, " 1024 256 float none x 1.0 2.0 1.75 0\n", options) == "f:1: root 'x' is no rank");
}

TEST_CASE("intents: communicators become jobs on shared hosts, with the gaps of their forecasts") {
  const Workload workload = read_intents({"f", samples::kIntents}, {}).value();
  CHECK(workload.hosts == 3);
  REQUIRE(workload.jobs.size() == 2);
  const Job& forecast = workload.jobs[0];
  CHECK(forecast.hosts == std::vector<uint32_t>{0, 1});
  CHECK(forecast.ranks_per_host == 2);
  REQUIRE(forecast.steps.size() == 2);
  CHECK(forecast.steps[0].collective->op == Op::kReduceScatter);
  CHECK(forecast.steps[0].compute == 1'300 * kPerUs);  // 2 ms less the 0.7 ms from the first window to the last
  CHECK(forecast.steps[1].compute == 300 * kPerUs);
  CHECK(workload.jobs[1].hosts == std::vector<uint32_t>{2, 0});
  CHECK(workload.jobs[1].steps[0].collective->op == Op::kAllToAll);
}

TEST_CASE("intents: mistakes name line, reason and cure") {
  const auto with = [&](const std::string& from, const std::string& to) {
    return refusal(read_intents, replaced(samples::kIntents, from, to));
  };
  CHECK(with("\"all-to-all\"", "\"gather\"") ==
        "f:2: the operation 'gather' is not simulated; leave communicator 9 out");
  CHECK(with("\"nranks\":2", "\"nranks\":3").find("f:2: communicator 9 has 3 ranks on 2 hosts") == 0);
  CHECK(with("\"nranks\":4", "\"nranks\":-4").find("f:1: nranks is no whole number") == 0);
  CHECK(with("\"forecasts\"", "\"forcasts\"").find("f:3: has neither jobs nor forecasts") == 0);
  CHECK(with("}\n{\"jobs\"", "\n{\"jobs\"").find("cut off?") != std::string::npos);
  CHECK(refusal(read_intents, "hello") == "f:1: no JSON object; a recording has one object after the other");
  CHECK(refusal(read_intents, "{\"jobs\":[]}") == "f: records no collectives");
}

TEST_CASE("Chakra: ranks meet in collectives and transfers") {
  const Workload workload = read_chakra(samples::chakra(), {}).value();
  const RunResult result = run(workload.fixed, leaf_spine(1, 1, 2));
  const RoundTimes round = round_times(workload.fixed, result.step_done_at)[0];
  CHECK(round.end > 100 * kPerUs);
  CHECK(result.released_at[workload.fixed.transfers.size() - 1] == 100 * kPerUs);  // the send waits for the computation
  CHECK(result.totals.delivered_bytes == 8'000 + 2 * 1'000'000);
}

TEST_CASE("Chakra: process groups have their own order, and barriers and several tags match") {
  using samples::ChakraSample;
  const auto collective = [](uint64_t id, uint64_t bytes, const char* group) {
    return ChakraSample{.id = id, .type = 7, .numbers = {{"comm_type", 2}, {"comm_size", bytes}}, .group = group};
  };
  std::vector<Input> inputs{{"0", samples::chakra_file({collective(1, 8, "a"), collective(2, 16, "b")})},
                            {"1", samples::chakra_file({collective(1, 8, "a")})},
                            {"2", samples::chakra_file({collective(5, 16, "b")})}};
  const Workload workload = read_chakra(inputs, {}).value();
  uint64_t bytes = 0;
  for (const Transfer& transfer : workload.fixed.transfers) bytes += transfer.bytes;
  CHECK(bytes == 24);
}

TEST_CASE("Chakra: mistakes name file, byte, reason and cure") {
  using samples::ChakraSample;
  const auto refusal = [](std::vector<Input> inputs, const ReadOptions& options = {}) {
    const auto workload = read_chakra(inputs, options);
    return workload ? "taken" : workload.error().message;
  };
  auto good = samples::chakra();
  auto cut = good;
  cut[1].text.pop_back();
  CHECK(refusal(cut).find("t.1.et: byte ") == 0);
  CHECK(refusal(cut).find("is the trace cut off?") != std::string::npos);
  CHECK(refusal({good[0]}) == "t.0.et: byte 22: node 2: sends to rank 1; there are traces of 1 ranks, from 0");
  const auto one = [&](const ChakraSample& node) { return refusal({{"f", samples::chakra_file({node})}}); };
  CHECK(one({.id = 1, .type = 4, .after = {2}}) == "f: byte 9: node 1: waits for node 2, which is not there");
  CHECK(one({.id = 1, .type = 4, .after = {1}}) ==
        "f: byte 9: node 1: waits for itself, by way of the nodes that it waits for; is the trace complete?");
  CHECK(one({.id = 1, .type = 7, .numbers = {{"comm_type", 3}, {"comm_size", 8}}}) ==
        "f: byte 9: node 1: comm_type 3 is not simulated");
  CHECK(one({.id = 1, .type = 99}).find("f: byte ") == 0);
  CHECK(refusal({{"f", "not a trace at all"}}).find("f: byte ") == 0);
  ReadOptions options;
  options.ranks = 4;
  CHECK(refusal(good, options) == "t.0.et: there are traces of 2 ranks, not 4");
  options = {};
  options.max_tasks = 4;
  CHECK(refusal(good, options).find("more nodes than fit") != std::string::npos);
}

TEST_CASE("real files of AICB and SimAI are read as they are") {
  struct File {
    const char* name;
    Format format;
    uint32_t ranks;
    size_t setup, steps;
  };
  for (const File& file : {File{"G13B-M1-C02_GPT13B_megatron_tp8_pp1_mbs1_sp.csv", Format::kAicb, 0, 7, 412},
                           File{"L13B-D1-C03_Llama13B_zero2_mbs1.csv", Format::kAicb, 0, 364, 28},
                           File{"L7B-D1-C02_Llama7B_zero3_mbs1.csv", Format::kAicb, 0, 585, 656},
                           File{"G13B-M1-C02_GPT13B_megatron_tp8_pp1_mbs1_sp_A100.txt", Format::kSimai, 128, 0, 516},
                           File{"L7B-D1-C02_Llama7B_deepspeed_zero3_A100.txt", Format::kSimai, 128, 0, 36},
                           File{"all_to_all.txt", Format::kSimai, 16, 0, 57}}) {
    const std::string path = shared(file.name);
    if (path.empty()) {
      WARN("skipped: " << file.name << " is not there; set ORRERY_SHARED_DATA to the folder that holds workloads/");
      continue;
    }
    ReadOptions options;
    options.ranks = file.ranks;
    options.ranks_per_host = 8;
    options.communicators.max_steps = 4;
    CAPTURE(file.name);
    const auto workload = load_workload(file.format, path, options);
    INFO((workload ? "" : workload.error().message));
    REQUIRE(workload);
    const Job& job = workload->jobs[0];
    CHECK(job.ranks() == (file.ranks != 0 ? file.ranks : 128));
    CHECK(job.setup.size() == file.setup);
    CHECK(job.steps.size() == file.steps);
    if (file.ranks != 16) continue;
    CHECK(traffic_of(*workload).rounds.size() == 1);
  }
}

}  // namespace orrery::sim
