// The command line as users meet it. docs/reference/orrery-sim.md is the golden file of its help: with
// ORRERY_UPDATE_GOLDEN=1 in the environment it is rewritten instead of compared.
#include "tools/sim/cli/cli.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "common/msg/waveform_messages.h"
#include "tests/fakes/scratch_directory.h"
#include "tests/unit/sim/cli_calls.h"
#include "tools/sim/cli/command.h"
#include "tools/sim/cli/progress.h"

namespace orrery::sim {

using nlohmann::json;

TEST_CASE("a run compares every scheme, beside the ideal") {
  const Outcome outcome = call(small_run({}));
  CHECK(outcome.code == kOk);
  CHECK(outcome.err.empty());
  CHECK(contains(outcome.out, "2 leaves x 4 spines, 8 hosts at 100 Gbit/s: all_reduce (ring)"));
  CHECK(contains(outcome.out, "\nideal "));
  for (const Scheme scheme : all_schemes()) CHECK(contains(outcome.out, "\n" + std::string(name_of(scheme)) + " "));
  CHECK(contains(outcome.out, "times as long as Orrery on average"));
}

TEST_CASE("waveforms of a run tell what each NIC sends, of which job and in which time") {
  test::ScratchDirectory scratch;
  const std::string file = scratch.file("waves.bin");
  for (const char* engine : {"packet", "fluid"}) {
    INFO(engine);
    const Outcome outcome = call(small_run({"--scheme", "ecmp,orrery", "--engine", engine, "--waveforms", file}));
    REQUIRE(outcome.code == kOk);
    const auto waves = msg::decode_waveforms(content(file));
    REQUIRE(waves);
    CHECK(waves->topology == "leaf-spine-2x4x8");
    CHECK(waves->scheme == "orrery");
    CHECK(waves->engine == engine);
    CHECK(waves->seed == 1);
    REQUIRE(waves->jobs.size() == 1);
    CHECK(waves->jobs[0].name == "job1");
    CHECK(waves->jobs[0].iterations == 2);
    CHECK(waves->jobs[0].period_ns > 280'000);  // 2 * 7/8 * 2 MB at 100 Gb/s
    CHECK(waves->jobs[0].period_ns < 420'000);
    REQUIRE(waves->nics.size() == 8);
    for (const msg::NicWaveform& nic : waves->nics) {
      REQUIRE(nic.shares.size() == 1);
      CHECK(nic.shares[0].bytes_per_iteration == 3'500'000);
      const uint64_t sent = std::accumulate(nic.bytes.begin(), nic.bytes.end(), uint64_t{0});
      CHECK(sent > 2 * nic.shares[0].bytes_per_iteration);  // with headers and acknowledgements
      CHECK(sent < 2 * nic.shares[0].bytes_per_iteration * 105 / 100);
    }
  }
}

TEST_CASE("waveforms need one planned scheme or a named one, and say which there are") {
  test::ScratchDirectory scratch;
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--waveforms", scratch.file("waves.bin")});
    return call(small_run(more));
  };
  CHECK(contains(with({"--scheme", "ecmp"}).err, "no planned scheme runs; add --scheme orrery"));
  const Outcome several = with({"--scheme", "orrery,orrery-paths"});
  CHECK(several.code == kUsage);
  CHECK(contains(several.err, "several planned schemes run (orrery, orrery-paths)"));
  CHECK(contains(with({"--scheme", "ecmp", "--waveforms-of", "orrery"}).err, "orrery is not among the schemes"));
  CHECK(contains(with({"--waveforms-of", "orery"}).err, "did you mean 'orrery'?"));
  REQUIRE(with({"--scheme", "ecmp,spray", "--waveforms-of", "ecmp"}).code == kOk);
  const auto waves = msg::decode_waveforms(content(scratch.file("waves.bin")));
  REQUIRE(waves);
  CHECK(waves->scheme == "ecmp");
}

TEST_CASE("a resumed study makes the run again whose waveforms are wanted, and only that") {
  test::ScratchDirectory scratch;
  const std::string output = scratch.file("result.json"), file = scratch.file("waves.bin");
  const std::vector<std::string> study{"--scheme", "ecmp,orrery", "--output", output, "--no-history"};
  REQUIRE(call(small_run(study)).code == kOk);
  std::vector<std::string> again = study;
  again.insert(again.end(), {"--resume", "--progress", "--waveforms", file});
  const Outcome resumed = call(small_run(again));
  REQUIRE(resumed.code == kOk);
  CHECK(contains(resumed.err, "orrery, seed 1"));
  CHECK_FALSE(contains(resumed.err, "ecmp, seed"));
  CHECK(msg::decode_waveforms(content(file)));
  CHECK_FALSE(contains(content(output), "\"history\""));
}

TEST_CASE("the JSON of a run has the figures of the table and what charts need") {
  const Outcome outcome = call(small_run({"--json", "--scheme", "ecmp,orrery", "--scheme", "ecmp"}));
  REQUIRE(outcome.code == kOk);
  const json document = json::parse(outcome.out);
  CHECK(document["schema"] == 1);
  CHECK(document["fabric"]["core_links"].size() == 16);
  CHECK(document["fabric"]["hosts"] == 8);
  REQUIRE(document["schemes"].size() == 2);
  const json& orrery = document["schemes"][1];
  CHECK(orrery["scheme"] == "orrery");
  CHECK(orrery["iterations"] == 4);
  CHECK(orrery["plan_gap"] == 0.0);
  CHECK(document["schemes"][0]["plan_gap"].is_null());
  REQUIRE(orrery["per_seed"].size() == 2);
  CHECK(orrery["per_seed"][1]["seed"] == 2);
  CHECK(orrery["per_seed"][0]["times_ms"].size() == 2);
  CHECK(orrery["per_seed"][0]["link_bytes"].size() == 16);
  CHECK(orrery["mean_ms"].get<double>() >= document["ideal_ms"].get<double>());
  CHECK(orrery["slowdown"].get<double>() < 1.1);
}

TEST_CASE("the fluid engine agrees with the packet engine where nothing queues") {
  const auto mean = [](const char* engine) {
    const Outcome outcome = call(small_run({"--json", "--scheme", "orrery", "--no-ideal", "--engine", engine}));
    REQUIRE(outcome.code == kOk);
    const json document = json::parse(outcome.out);
    CHECK(document["settings"]["engine"] == engine);
    CHECK(document["ideal_ms"].is_null());
    return document["schemes"][0]["mean_ms"].get<double>();
  };
  CHECK(mean("fluid") == Approx(mean("packet")).epsilon(0.03));
}

TEST_CASE("a file of another tool runs without a scenario, as flows unless said otherwise") {
  const test::ScratchDirectory folder;
  std::ofstream(folder.file("run.csv"))
      << "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time\n"
         "CommType.all_reduce,CommGroup.dp_group,16,1000000,forward,None,None,,None\n";
  const auto result = [&](std::vector<std::string> more) {
    std::vector<std::string> words{
        "run", "--workload", folder.file("run.csv"), "--ranks-per-host", "2", "--scheme", "orrery", "--seeds",
        "1",   "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = call(words);
    INFO(outcome.err);
    REQUIRE(outcome.code == kOk);
    return json::parse(outcome.out);
  };
  const json document = result({"--rounds", "3"});
  CHECK(document["settings"]["engine"] == "fluid");
  CHECK(document["schemes"][0]["per_seed"].size() == 1);
  CHECK(document["schemes"][0]["iterations"] == 3);
  CHECK(contains(document["title"], "run.csv (as aicb), 2 ranks to a host"));
  CHECK(result({})["schemes"][0]["iterations"] == 1);  // as the file says
  const json packets = result({"--engine", "packet", "--placement", "contiguous"});
  CHECK(packets["settings"]["engine"] == "packet");
  CHECK(contains(packets["title"], "placed contiguous"));
}

// Children send to one parent at once: what congestion control makes of that is no part of the ideal.
TEST_CASE("no scheme is faster than the ideal, also where several send to one") {
  for (const char* shape : {"tree", "ring"}) {
    const auto words =
        with(small_run({"--algorithm", shape, "--scheme", "ecmp,spray,orrery", "--json"}), "--bytes", "8M");
    const json document = json::parse(call(words).out);
    CHECK(document["schemes"].size() == 3);
    for (const json& scheme : document["schemes"]) {
      INFO(shape << ", " << scheme["scheme"]);
      CHECK(scheme["slowdown"].get<double>() > 0.999);
    }
  }
}

TEST_CASE("the same seeds give the same result") {
  const auto words = small_run({"--json", "--scheme", "ecmp", "--scheme", "reps"});
  CHECK(without_timings(call(words).out) == without_timings(call(words).out));
}

TEST_CASE("runs side by side, as packets and as flows, print the same bytes as one after the other") {
  for (const char* engine : {"packet", "fluid"}) {
    const auto words = small_run({"--json", "--engine", engine, "--parallel", "1"});
    const std::string one = call(words).out;
    CHECK(without_timings(one) == without_timings(call(with(words, "--parallel", "3")).out));
    // A scheme by itself comes to what it comes to among others.
    const json alone = json::parse(call(small_run({"--json", "--engine", engine, "--scheme", "plb"})).out);
    const json among = json::parse(one);
    for (const json& scheme : among["schemes"])
      if (scheme["scheme"] == "plb")
        CHECK(scheme["per_seed"][1]["times_ms"] == alone["schemes"][0]["per_seed"][1]["times_ms"]);
  }
}

TEST_CASE("cures name what was typed, and limits of options are those of the scenario's keys") {
  test::ScratchDirectory folder;
  std::ofstream(folder.file("layers.txt")) << "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1\n1\n"
                                              "layer -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 100000 100\n";
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"run", "--workload", folder.file("layers.txt"), "--format", "simai"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = call(words);
    CHECK(outcome.code == kUsage);
    return outcome.err;
  };
  CHECK(contains(refused({}), "does not say how many ranks there are (all_gpus:); give --ranks\n"));
  CHECK(contains(refused({"--ranks", "8", "--ranks-per-host", "3"}), "change --ranks-per-host\n"));
  CHECK(contains(call(small_run({"--connections", "65"})).err, "65 not in range"));
  CHECK(contains(call(with(small_run({}), "--seeds", "10001")).err, "10001 not in range"));
}

TEST_CASE("progress tells how far a run is, how fast, and what is left of it and of all") {
  std::ostringstream err;
  double now = 100;
  ProgressLine progress(err, false, "try flows", [&] { return now; });
  Traffic traffic;
  traffic.jobs = {"a", "b"};
  traffic.rounds.resize(8);
  progress.start({.done = 1, .known = 1, .total = 4, .what = "ecmp, seed 2", .data_hops = 2'500'000, .bytes = 1'000},
                 traffic);
  CHECK(err.str() == "run 2 of 4: ecmp, seed 2, 2.5 M packet hops of traffic\n");
  now = 105;
  progress.pulse(1, {.now = kPerMs, .events = 10, .delivered_bytes = 100});
  CHECK(lines(err.str()) == 1);  // a line every ten seconds where it is no terminal
  now = 120;
  progress.pulse(1, {.now = 3 * kPerMs / 2, .events = 40'000'000, .delivered_bytes = 250});
  CHECK(contains(
      err.str(),
      "\n2/4 ecmp, seed 2: 25 %, iteration 2 of 4; 1.50 ms simulated, 2.0 M events/s; 1:00 left, 3:40 in all\n"));
  CHECK(contains(err.str(), "\ntry flows\n"));
  now = 131;
  progress.pulse(1, {.now = 2 * kPerMs, .events = 40'000'001, .delivered_bytes = 300});
  CHECK(err.str().find("try flows") == err.str().rfind("try flows"));
  // Beside another, both share what is to come.
  progress.start({.done = 2, .known = 1, .total = 4, .what = "ecmp, seed 3", .data_hops = 1, .bytes = 1'000}, traffic);
  now = 180;
  progress.end(1);
  now = 191;
  progress.pulse(2, {.now = kPerMs, .events = 1, .delivered_bytes = 500});
  CHECK(
      contains(err.str(), "3/4 ecmp, seed 3: 50 %, iteration 3 of 4; 1.00 ms simulated, 0.0 M events/s; 1:00 left, "));
  CHECK(contains(err.str(), " left, 2:40 in all\n"));
}

TEST_CASE("wrong usage is told with the cure and exit code 2") {
  struct Case {
    std::vector<std::string> words;
    std::string told;
  };
  const std::vector<Case> cases{
      {{}, "a command is required, one of: run, compare, report"},
      {{"runn"}, "did you mean 'run'"},
      {{"run", "--sheme", "ecmp"}, "did you mean '--scheme'"},
      {{"run", "--scheme", "ecm"}, "there is no 'ecm', did you mean 'ecmp'"},
      {{"run", "--bytes", "8X"}, "'8X' is no quantity"},
      {{"run", "--bytes", "-8"}, "'-8' is no quantity"},
      {{"run", "--collective", "all"}, "there is no 'all'"},
      {{"run", "--placement", "best"}, "there is no 'best'"},
      {{"run", "--hosts", "15"}, "take 12 or 16"},
      {{"run", "--rounds", "0"}, "--rounds"},
      {{"run", "--ranks", "1"}, "a job has 2 ranks or more; take fewer --jobs"},
      {{"run", "--jobs", "9"}, "9 jobs on 16 hosts of 1 ranks: a job has 2 ranks or more; take fewer --jobs"},
      {{"run", "--ranks", "15", "--ranks-per-host", "2"}, "15 do not fill hosts of 2 (--ranks-per-host); take 16"},
      {{"run", "--ranks-per-host", "4000000000"}, "not in range 1 to 256"},
      {{"run", "--rounds", "4000000000"}, "not in range 1 to 1000000"},
      {{"run", "--channels", "65"}, "not in range 1 to 64"},
      {{"run", "--bytes", "0"}, "--bytes: 0 is out of range; give 1 to"},
      {{"run", "--rate", "0"}, "--rate: 0 is out of range; give a rate from 1k to 10T"},
      {{"run", "--queue-bytes", "1000T"}, "--queue-bytes: 1000T is out of range; give at most"},
      {{"run", "--compute-us", "nan"}, "--compute-us: nan is no number from 0 to"},
      {{"run", "--propagation-ns", "nan"}, "--propagation-ns: nan is no number from 1 to"},
      {{"run", "--clock-error-ns", "1e300"}, "--clock-error-ns: 1e300 is no number from 0 to"},
      {{"run", "--memory-gib", "inf"}, "--memory-gib: inf is no number from"},
      {{"run", "--topology", "x.yaml", "--hosts", "8"}, "--hosts does not go with --topology"},
      {{"run", "--format", "simai"}, "--format requires --workload"},
      {{"run", "--workload", "x.csv", "--format", "csv"}, "--format: there is no 'csv'"},
      {{"run", "--workload", "x.csv", "--bytes", "8M"}, "--bytes does not go with --workload: the file says"},
      {{"run", "x.yaml", "--workload", "x.csv"}, "--workload does not go with a scenario file"},
      {{"run", "x.yaml", "--bytes", "8M"}, "--bytes does not go with a scenario file"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = call(c.words);
    INFO(c.told << "\n" << outcome.err);
    CHECK(outcome.code == kUsage);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, c.told));
  }
}

TEST_CASE("what does not fit is refused before it starts, with exit code 1") {
  const Outcome outcome = call({"run", "--rounds", "1000000", "--memory-gib", "1"});
  CHECK(outcome.code == kFailed);
  CHECK(contains(outcome.err, "have 1.0 GiB: use --rounds "));
  const Outcome crowded = call({"run", "--ranks", "64"});
  CHECK(crowded.code == kFailed);
  CHECK(contains(crowded.err, "job job1 needs 64 hosts, and 16 of the fabric's 16 are left; take a larger fabric"));
}

TEST_CASE("files that are not there or not results are named") {
  const test::ScratchDirectory folder;
  const std::string path = folder.file("x.json");
  CHECK(contains(call({"compare", path, path}).err, "cannot read the result " + path));
  for (const char* text :
       {"", "{", "[]", "{}", "{\"schema\": 2, \"schemes\": []}", "{\"schema\": 1, \"schemes\": 3}",
        "{\"schema\": 1, \"schemes\": [3]}", "{\"schema\": 1, \"schemes\": [{\"scheme\": 3}]}",
        "{\"schema\": 1, \"title\": 5, \"schemes\": []}", "{\"schema\": 1, \"fabric\": 5, \"schemes\": []}"}) {
    std::ofstream(path) << text;
    const Outcome outcome = call({"report", path});
    CHECK(outcome.code == kUsage);
    CHECK(contains(outcome.err, path));
  }
}

TEST_CASE("quantities take the suffixes of rates and of memory") {
  CHECK(*parse_quantity("400G") == 400'000'000'000);
  CHECK(*parse_quantity("1.5k") == 1'500);
  CHECK(*parse_quantity("64Mi") == 67'108'864);
  CHECK(*parse_quantity("0") == 0);
  for (const char* wrong : {"", "G", "1 G", "1g", "nan", "inf", "1e30", "12Pi"}) CHECK_FALSE(parse_quantity(wrong));
}

TEST_CASE("the reference page is what --help prints") {
  const std::string path = std::string(ORRERY_REFERENCE) + "/orrery-sim.md";
  const std::string expected =
      "# orrery-sim\n\nMade from the help texts by `ORRERY_UPDATE_GOLDEN=1 build/dev/test/sim_cli_test`; a test "
      "compares "
      "them. `orreryctl simulate` is `orrery-sim run`.\nWhat the figures mean and how far they can be trusted: "
      "[simulator](../simulator.md).\n\n```text\n" +
      all_help() + "```\n";
  if (std::getenv("ORRERY_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << expected;
    return;
  }
  INFO(path << " differs from the help texts; rewrite it with ORRERY_UPDATE_GOLDEN=1 build/dev/test/sim_cli_test");
  CHECK(content(path) == expected);
}

}  // namespace orrery::sim
