// The command line as users meet it. docs/reference/orrery-sim.md is the golden file of its help: with
// ORRERY_UPDATE_GOLDEN=1 in the environment it is rewritten instead of compared.
#include "tools/sim/cli/cli.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/fakes/scratch_directory.h"
#include "tools/sim/cli/command.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome call(std::vector<std::string> arguments) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const int code = run(arguments, console);
  return {code, out.str(), err.str()};
}

// Small enough to take a moment.
std::vector<std::string> small_run(std::vector<std::string> more) {
  std::vector<std::string> words{"run",     "--leaves", "2",        "--spines", "4",       "--hosts", "8",
                                 "--bytes", "2M",       "--rounds", "2",        "--seeds", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a run compares every scheme, beside the ideal") {
  const Outcome outcome = call(small_run({}));
  CHECK(outcome.code == kOk);
  CHECK(outcome.err.empty());
  CHECK(contains(outcome.out, "2 leaves x 4 spines, 8 hosts at 100 Gbit/s: all_reduce (ring)"));
  CHECK(contains(outcome.out, "\nideal "));
  for (const Scheme scheme : all_schemes()) CHECK(contains(outcome.out, "\n" + std::string(name_of(scheme)) + " "));
  CHECK(contains(outcome.out, "times as long as Orrery on average"));
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

TEST_CASE("the same seeds give the same result") {
  const auto figures = [](const Outcome& outcome) {
    json document = json::parse(outcome.out);
    for (json& scheme : document["schemes"])
      for (json& run : scheme["per_seed"]) run.erase("cpu_s");
    return document;
  };
  const auto words = small_run({"--json", "--scheme", "ecmp", "--scheme", "reps"});
  CHECK(figures(call(words)) == figures(call(words)));
}

TEST_CASE("tables of flows and links have a line per run and flow or link") {
  const test::ScratchDirectory folder;
  const std::string prefix = folder.file("x");
  REQUIRE(call(small_run({"--scheme", "ecmp", "--csv", prefix})).code == kOk);
  const std::string flows = content(prefix + ".flows.csv"), links = content(prefix + ".links.csv");
  CHECK(lines(flows) == 1 + 2 * 8);
  CHECK(lines(links) == 1 + 2 * (16 + 16));
  CHECK(flows.starts_with("scheme,seed,flow,job,src,dst,bytes,"));
  CHECK(contains(flows, "\necmp,2,7,job1,"));
  // Two rounds of a ring of 8: each rank sends 2 * 7/8 of the array in each.
  CHECK(contains(flows, ",7000000,28,28,"));
}

TEST_CASE("compare puts two results side by side, report makes a page of one") {
  const test::ScratchDirectory folder;
  const std::string a = folder.file("a.json"), b = folder.file("b.json"), page = folder.file("x.html");
  REQUIRE(call(small_run({"--scheme", "ecmp", "-o", a})).code == kOk);
  REQUIRE(call(small_run({"--scheme", "ecmp", "--scheme", "orrery", "--rate", "50G", "-o", b})).code == kOk);
  const Outcome text = call({"compare", a, b});
  CHECK(text.code == kOk);
  CHECK(contains(text.out, "\necmp "));
  CHECK(contains(text.out, "\norrery "));
  const json comparison = json::parse(call({"compare", a, b, "--json"}).out);
  const json& mean = comparison["schemes"][0]["mean_ms"];
  CHECK(mean["b"].get<double>() != mean["a"].get<double>());
  CHECK(mean["ratio"].get<double>() == Approx(mean["b"].get<double>() / mean["a"].get<double>()));
  CHECK(comparison["schemes"][1]["in_a"] == false);
  CHECK(comparison["schemes"][1]["mean_ms"]["ratio"].is_null());
  REQUIRE(call({"report", b, "-o", page}).code == kOk);
  const std::string html = content(page);
  CHECK(html.starts_with("<!doctype html>"));
  for (const char* part : {"Ablation", "<svg", "orrery: mean ", "leaf1:p5 to spine1", "</html>"})
    CHECK(contains(html, part));
  CHECK_FALSE(contains(html, "http"));
}

TEST_CASE("a page shows what a document claims as text, never as markup") {
  const json document = {{"schema", 1},
                         {"title", "<script>x</script>"},
                         {"schemes", {{{"scheme", "<b>"}, {"mean_ms", 1.0}, {"per_seed", {{{"times_ms", {1.0}}}}}}}}};
  const std::string html = render_html(document);
  CHECK_FALSE(contains(html, "<script>"));
  CHECK_FALSE(contains(html, "<b>"));
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
      {{"run", "--ranks", "1"}, "fewer than 2"},
      {{"run", "--topology", "x.yaml", "--hosts", "8"}, "--hosts does not go with --topology"},
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
  const Outcome outcome = call({"run", "--rounds", "100000000", "--memory-gib", "1"});
  CHECK(outcome.code == kFailed);
  CHECK(contains(outcome.err, "fewer rounds"));
  const Outcome crowded = call({"run", "--ranks", "64"});
  CHECK(crowded.code == kFailed);
  CHECK(contains(crowded.err, "the jobs need more hosts than the 16 of the fabric"));
}

TEST_CASE("files that are not there or not results are named") {
  const test::ScratchDirectory folder;
  const std::string path = folder.file("x.json");
  CHECK(contains(call({"compare", path, path}).err, "cannot read " + path));
  for (const char* text :
       {"", "{", "[]", "{}", "{\"schema\": 2, \"schemes\": []}", "{\"schema\": 1, \"schemes\": 3}"}) {
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
