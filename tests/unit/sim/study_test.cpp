// Studies that are interrupted, and the tables of flows and links that they leave.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/fakes/child_process.h"
#include "tests/fakes/scratch_directory.h"
#include "tests/unit/sim/cli_calls.h"
#include "tools/sim/cli/csv_table.h"
#include "tools/sim/schemes/scheme.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream rest(line);
  for (std::string field; std::getline(rest, field, ',');) fields.push_back(field);
  return fields;
}

// The lines of a table of which no field is quoted, by column.
std::vector<std::map<std::string, std::string>> rows_of(const std::string& path) {
  std::istringstream file(content(path));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> columns = fields_of(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = fields_of(line);
    REQUIRE(fields.size() == columns.size());
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < fields.size(); ++i) row[columns[i]] = fields[i];
  }
  return rows;
}

double sum(const std::vector<std::map<std::string, std::string>>& rows, const std::string& column) {
  double sum = 0;
  for (const auto& row : rows) sum += std::stod(row.at(column));
  return sum;
}

// A result file with its tables.
struct Study {
  test::ScratchDirectory folder;
  std::string result = folder.file("a.json"), prefix = folder.file("a");
  std::string flows = prefix + ".flows.csv", links = prefix + ".links.csv";

  std::vector<std::string> words(std::vector<std::string> more) const {
    more.insert(more.end(), {"-o", result, "--csv", prefix});
    return small_run(std::move(more));
  }
  std::string files() const { return without_timings(content(result)) + content(flows) + content(links); }
};

}  // namespace

TEST_CASE("tables of flows and links have a line per run and flow or link") {
  const Study study;
  REQUIRE(call(study.words({"--scheme", "ecmp"})).code == kOk);
  const auto flows = rows_of(study.flows), links = rows_of(study.links);
  REQUIRE(flows.size() == 2 * 8);
  CHECK(links.size() == 2 * (16 + 16));
  const auto& last = flows.back();
  CHECK(last.at("seed") == "2");
  CHECK(last.at("flow") == "7");
  CHECK(last.at("job") == "job1");
  CHECK(last.at("queue_pairs") == "1");
  CHECK(last.at("paths") == "1");
  // Fragmented: every flow crosses a spine, from its host by two switches to the other's.
  const std::string& path = last.at("path");
  CHECK(std::count(path.begin(), path.end(), ' ') == 3);
  CHECK(path.starts_with(last.at("src") + ":eth0 leaf"));
  CHECK(contains(path, " spine"));
  // Two rounds of a ring of 8: each rank sends 2 * 7/8 of the array in each.
  CHECK(last.at("bytes") == "7000000");
  CHECK(last.at("messages") == "28");
  CHECK(last.at("delivered") == "28");
  CHECK(std::stod(last.at("first_release_us")) < std::stod(last.at("last_delivery_us")));
}

TEST_CASE("the tables account for all that a result counts") {
  const Study study;
  const bool lossless = GENERATE(true, false);
  const std::string scenario = study.folder.file("s.yaml");
  std::ofstream(scenario) << "topology: {leaf_spine: {leaves: 2, spines: 2, hosts: 8}}\n"
                             "placement: {kind: fragmented}\n"
                             "jobs: [{hosts: 8, steps: [{op: all_reduce, bytes: 4000000}]}]\n"
                             "engine: {switch: {port_limit_bytes: 30000}, ecn: {kmin_bytes: 5000, kmax_bytes: 20000},\n"
                             "         dcqcn: {enabled: false}, pfc: {xoff_bytes: 20000, xon_bytes: 10000, enabled: "
                          << (lossless ? "true}}" : "false}}") << std::endl;
  REQUIRE(call({"run", scenario, "--scheme", "ecmp,spray", "--seeds", "2", "-o", study.result, "--csv", study.prefix})
              .code == kOk);
  const auto flows = rows_of(study.flows), links = rows_of(study.links);
  std::map<std::string, double> expected;
  const json document = json::parse(content(study.result));
  for (const json& scheme : document["schemes"])
    for (const char* key : {"drops", "marks", "pauses", "retransmits", "path_changes"})
      expected[key] += scheme[key].get<double>();
  for (const char* key : {"drops", "marks", "pauses"}) CHECK(sum(links, key) == expected[key]);
  for (const char* key : {"retransmits", "path_changes"}) CHECK(sum(flows, key) == expected[key]);
  CHECK((expected["drops"] > 0) == !lossless);
  CHECK((expected["retransmits"] > 0) == !lossless);
  CHECK((expected["pauses"] > 0) == lossless);
  CHECK(expected["path_changes"] > 0);
  CHECK((sum(links, "paused_us") > 0) == lossless);
}

TEST_CASE("a flow of several queue pairs tells every path that it begins on") {
  const Study study;
  REQUIRE(call(study.words({"--scheme", "ecmp-multi", "--connections", "8"})).code == kOk);
  for (const auto& flow : rows_of(study.flows)) {
    CHECK(flow.at("queue_pairs") == "8");
    const std::string& path = flow.at("path");
    CHECK(static_cast<size_t>(std::count(path.begin(), path.end(), '|')) + 1 == std::stoul(flow.at("paths")));
    CHECK(std::stoul(flow.at("paths")) > 1);
  }
}

TEST_CASE("the reference page has every column, in order") {
  const Study study;
  REQUIRE(call(study.words({"--scheme", "ecmp"})).code == kOk);
  const std::string page = content(std::string(ORRERY_REFERENCE) + "/simulation-csv.md");
  for (const auto& [heading, path] :
       {std::pair{"## PREFIX.flows.csv", study.flows}, {"## PREFIX.links.csv", study.links}}) {
    const size_t begin = page.find(heading);
    REQUIRE(begin != std::string::npos);
    std::istringstream section(page.substr(begin, page.find("\n## ", begin + 1) - begin));
    std::vector<std::string> documented;
    for (std::string line; std::getline(section, line);) {
      if (!line.starts_with("| `")) continue;
      const size_t end = line.find(" |", 1);
      for (size_t at = line.find('`'); at < end; at = line.find('`', line.find('`', at + 1) + 1))
        documented.push_back(line.substr(at + 1, line.find('`', at + 1) - at - 1));
    }
    std::istringstream file(content(path));
    std::string header;
    std::getline(file, header);
    CHECK(documented == fields_of(header));
  }
}

TEST_CASE("the example of mixed jobs from AICB files runs") {
  const Outcome outcome =
      call({"run", std::string(ORRERY_REFERENCE) + "/../examples/mixed/mixed.yaml", "--engine", "fluid"});
  INFO(outcome.err);
  REQUIRE(outcome.code == kOk);
  for (const char* job : {"dense-a", "dense-b", "experts"}) CHECK(contains(outcome.out, std::string("\n") + job + " "));
}

TEST_CASE("fields that would break a line are quoted") {
  CHECK(csv_field("job1") == "job1");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"a\"") == "\"say \"\"a\"\"\"");
}

TEST_CASE("an interrupted study goes on where it was, and comes to the same") {
  const Study study;
  REQUIRE(call(study.words({"--scheme", "ecmp,orrery"})).code == kOk);
  const std::string whole = study.files();
  json part = json::parse(content(study.result));
  part["schemes"][1]["per_seed"].erase(1);
  part["runs_done"] = 4;
  std::ofstream(study.result) << part;
  // A line was being written when it ended.
  std::ofstream(study.links, std::ios::app) << "orrery,2,leaf1:p";
  const Outcome resumed = call(study.words({"--scheme", "ecmp,orrery", "--resume", "--progress"}));
  CHECK(resumed.code == kOk);
  CHECK(contains(resumed.err, "run 5 of 5: orrery, seed 2"));
  CHECK(lines(resumed.err) == 1);
  CHECK(study.files() == whole);
  // More seeds only add to it; other jobs, fabrics and models are refused.
  const Outcome added = call(with(study.words({"--scheme", "ecmp", "--resume", "--progress"}), "--seeds", "3"));
  CHECK(contains(added.err, "run 4 of 4: ecmp, seed 3"));
  CHECK(lines(added.err) == 1);
  CHECK(rows_of(study.flows).size() == 3 * 8);
  const Outcome other = call(study.words({"--pfc", "off", "--scheme", "ecmp", "--resume"}));
  CHECK(other.code == kUsage);
  CHECK(contains(other.err, "is the result of another study"));
  CHECK(rows_of(study.flows).size() == 3 * 8);
  CHECK(contains(call(small_run({"--resume"})).err, "--output"));
}

TEST_CASE("what an interrupted study left damaged is run again") {
  const Study study;
  const auto words = study.words({"--scheme", "ecmp,orrery", "--resume", "--progress"});
  REQUIRE(call(words).code == kOk);
  const std::string whole = study.files();
  SECTION("a record") {
    json part = json::parse(content(study.result));
    part["schemes"][1]["per_seed"][1].erase("drops");
    std::ofstream(study.result) << part;
  }
  SECTION("a line of a table") {
    std::string text = content(study.links);
    text[text.size() - 3] ^= 1;
    std::ofstream(study.links) << text;
  }
  SECTION("the end of a table") {
    const std::string text = content(study.flows);
    std::ofstream(study.flows) << text.substr(0, text.size() - 9);
  }
  const Outcome resumed = call(words);
  CHECK(contains(resumed.err, "run 5 of 5: orrery, seed 2"));
  CHECK(lines(resumed.err) == 1);
  CHECK(study.files() == whole);
}

TEST_CASE("tables that another study wrote are not taken for this one's") {
  const Study study;
  REQUIRE(call(study.words({"--scheme", "ecmp"})).code == kOk);
  const std::string whole = study.files();
  REQUIRE(call(small_run({"--scheme", "ecmp", "--rate", "50G", "--csv", study.prefix})).code == kOk);
  const Outcome resumed = call(study.words({"--scheme", "ecmp", "--resume", "--progress"}));
  CHECK(contains(resumed.err, "run 2 of 3: ecmp, seed 1"));
  CHECK(study.files() == whole);
}

TEST_CASE("a study that was killed twice comes to what one comes to that was not") {
  const Study killed, whole;
  const auto run_until = [&](const std::vector<std::string>& words, const auto& reached) {
    std::vector<std::string> command = words;
    command.insert(command.begin(), ORRERY_SIM);
    test::ChildProcess process(command, killed.folder.file("log"));
    while (process.running() && !reached()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (!process.running()) return false;
    process.kill(SIGKILL);
    return process.wait() == 128 + SIGKILL;
  };
  // As long as it takes to catch it in the middle: results are saved once a second.
  uint32_t seeds = 5;
  const auto words_of = [&](const Study& study) {
    return with(study.words({"--scheme", "ecmp,spray", "--resume", "--progress"}), "--seeds", std::to_string(seeds));
  };
  const auto saved = [&] {
    const json document = json::parse(content(killed.result), nullptr, false);
    return document.is_object() ? document["runs_done"].get<uint32_t>() : 0;
  };
  uint32_t first = 0;
  const auto killed_twice = [&] {
    if (!run_until(words_of(killed), [&] { return saved() > 1; })) return false;
    first = saved();
    return run_until(words_of(killed),
                     [&, before = lines(content(killed.flows))] { return lines(content(killed.flows)) > before + 8; });
  };
  while (!killed_twice()) {
    REQUIRE(saved() == 2 * seeds + 1);
    std::filesystem::remove(killed.result);
    seeds *= 2;
  }
  const uint32_t second = saved();
  CHECK(second >= first);
  CHECK(second < 2 * seeds + 1);
  std::filesystem::remove(killed.folder.file("log"));
  CHECK_FALSE(run_until(words_of(killed), [] { return false; }));
  CHECK(content(killed.folder.file("log")).starts_with("run " + std::to_string(second + 1) + " of "));
  REQUIRE(call(words_of(whole)).code == kOk);
  CHECK((killed.files() == whole.files()));  // too long to be shown
}

}  // namespace orrery::sim
