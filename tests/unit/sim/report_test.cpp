// What is made of results: comparisons, and the page.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/fakes/scratch_directory.h"
#include "tests/unit/sim/cli_calls.h"
#include "tools/sim/cli/command.h"
#include "tools/sim/cli/document.h"
#include "tools/sim/cli/report_charts.h"
#include "tools/sim/schemes/scheme.h"

namespace orrery::sim {

using nlohmann::json;

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
  CHECK(contains(text.out, "\nnic_rate_bps  100 Gbit/s  50 Gbit/s\n"));
  CHECK_FALSE(contains(text.out, "WARNING"));
  REQUIRE(call({"report", b, "-o", page}).code == kOk);
  const std::string html = content(page);
  CHECK(html.starts_with("<!doctype html>"));
  for (const char* part : {"Ablation", "<svg", "orrery: mean ", "leaf1:p5 to spine1", "The fabric",
                           "Link heat over time", "How deep queues are", "busiest: h", "planned paths", "</html>"})
    CHECK(contains(html, part));
  CHECK_FALSE(contains(html, "http"));
}

TEST_CASE("a result that goes to a file tells what links, queues and NICs did over time") {
  const test::ScratchDirectory folder;
  const std::string path = folder.file("a.json"), page = folder.file("a.html");
  REQUIRE(call(small_run({"--scheme", "ecmp", "-o", path, "--report", page})).code == kOk);
  const json history = json::parse(content(path))["schemes"][0]["history"];
  CHECK(history["seed"] == 1);
  const size_t slices = history["slices"];
  CHECK(slices > 32);
  CHECK(slices <= 256);
  REQUIRE(history["tiers"].size() == 4);
  CHECK(history["tiers"][0]["name"] == "hosts to leaves");
  REQUIRE(history["rows"].size() == 16);
  for (const json& row : history["rows"]) CHECK(row["fullest"].get<std::string>().size() == 2 * slices);
  REQUIRE(history["nics"].size() == 8);
  CHECK(history["nics"][0]["bytes"] >= history["nics"][7]["bytes"]);
  REQUIRE(history["queues"].size() == 2);
  CHECK(history["queues"][0]["share"].back() == Approx(1));
  CHECK(content(page).starts_with("<!doctype html>"));
  REQUIRE(call(small_run({"--scheme", "ecmp", "-o", path, "--no-history"})).code == kOk);
  CHECK_FALSE(json::parse(content(path))["schemes"][0].contains("history"));
  CHECK(contains(call({"report", path}).out, "has no history"));
}

TEST_CASE("compare tells what makes two results differ, and what is not finished") {
  const test::ScratchDirectory folder;
  const std::string a = folder.file("a.json"), b = folder.file("b.json");
  REQUIRE(call(small_run({"--scheme", "ecmp", "-o", a})).code == kOk);
  CHECK(contains(call({"compare", a, a}).out, "The same study: fabric, jobs, model and seeds are equal."));
  REQUIRE(call(with(small_run({"--scheme", "ecmp", "-o", b}), "--seeds", "5")).code == kOk);
  const Outcome seeds = call({"compare", a, b});
  CHECK(contains(seeds.out, "\nseeds      1, 2  1 to 5\nFabric, jobs and model are equal: what differs is luck.\n"));
  REQUIRE(call(with(small_run({"--scheme", "orrery", "-o", b, "--jobs", "2"}), "--hosts", "12")).code == kOk);
  const Outcome other = call({"compare", a, b});
  CHECK(contains(other.out, "\nhosts      8     12\n"));
  CHECK(contains(other.out, "\njobs       job1  job1, job2\n"));
  CHECK(contains(other.out, "\necmp "));
  CHECK(contains(other.out, " -\n"));  // drops of a scheme that is not there are not none
  REQUIRE(call(small_run({"--scheme", "ecmp", "-o", b, "--channels", "2"})).code == kOk);
  CHECK(contains(call({"compare", a, b}).out, "differ in what results do not tell"));
  json document = json::parse(content(b));
  document["runs_done"] = 1;
  document["schemes"][0]["unfinished"] = 3;
  std::ofstream(b) << document;
  const Outcome warned = call({"compare", a, b});
  CHECK(contains(warned.out, "WARNING: B is not finished; 2 runs are left."));
  CHECK(contains(warned.out, "WARNING: 3 iterations of B did not end"));
}

TEST_CASE("several jobs have a line each, in the table and on the page") {
  const test::ScratchDirectory folder;
  const std::string page = folder.file("x.html");
  const Outcome outcome = call(small_run({"--jobs", "2", "--scheme", "ecmp,orrery", "--report", page}));
  REQUIRE(outcome.code == kOk);
  CHECK(contains(outcome.out, "\njob2 "));
  CHECK(contains(content(page), "<th scope=\"row\">job2</th>"));
  REQUIRE(call(small_run({"--scheme", "ecmp", "--report", page})).code == kOk);
  CHECK_FALSE(contains(content(page), "<h2>Jobs</h2>"));
  const json document = {
      {"jobs", {"a", "b"}},
      {"ideal_job_times_ms", {{2.0, 4.0}, {5.0}}},
      {"schemes",
       {{{"per_seed", {{{"job_times_ms", {{3.0}, json::array()}}}, {{"job_times_ms", {{6.0}, json::array()}}}}}}}}};
  const std::vector<JobMeans> jobs = job_means(document);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].ideal_ms == 3);
  CHECK(jobs[0].mean_ms == std::vector<double>{4.5});
  CHECK(beside_ideal(jobs[0].mean_ms[0], jobs[0].ideal_ms) == "1.500");
  CHECK(beside_ideal(jobs[1].mean_ms[0], jobs[1].ideal_ms) == "-");
}

TEST_CASE("the page of a large fabric stays small, and no name runs out of its place") {
  const test::ScratchDirectory folder;
  const std::string page = folder.file("x.html");
  REQUIRE(call({"run",      "--leaves", "64",      "--spines", "64",           "--hosts",  "1024",
                "--engine", "fluid",    "--bytes", "8M",       "--ring-steps", "4",        "--rounds",
                "1",        "--seeds",  "1",       "--scheme", "ecmp,orrery",  "--report", page})
              .code == kOk);
  const std::string html = content(page);
  CHECK(contains(html, "Use of every link between leaves and spines"));
  CHECK(html.size() < 1'000'000);
  CHECK(shortened("leaf1:p5 to spine1", 29) == "leaf1:p5 to spine1");
  CHECK(shortened("pod-17-leaf-12:Ethernet1/17/1 to pod-17-spine-4", 29) == "pod-17-leaf-12…pod-17-spine-4");
  CHECK(shortened("<aaaaaaaaaaaaaaaaaaaaaaaaaaa>", 9) == "&lt;aaa…aaa&gt;");
  CHECK(shortened("ääääääääää", 9) == "ää…ää");
}

TEST_CASE("cells of a grid that are alike are one stroke") {
  UseGrid grid;
  for (const size_t row : {0, 1})
    for (size_t column = 0; column < 4; ++column) grid.add(row, column, column < 3 ? 2 : 8);
  const std::string svg = grid.svg(5, 6, 2, 10);
  CHECK(contains(svg, "translate(5.00 11.00) scale(2.0000 10.0000)"));
  CHECK(contains(svg, "<path class=\"l2\" d=\"M0 0h3M0 1h3\"/><path class=\"l8\" d=\"M3 0h1M3 1h1\"/>"));
}

TEST_CASE("a page shows what a document claims as text, never as markup") {
  const json document = {{"schema", 1},
                         {"title", "<script>x</script>"},
                         {"schemes", {{{"scheme", "<b>"}, {"mean_ms", 1.0}, {"per_seed", {{{"times_ms", {1.0}}}}}}}}};
  const std::string html = render_html(document);
  CHECK_FALSE(contains(html, "<script>x"));
  CHECK_FALSE(contains(html, "<b>"));
}

TEST_CASE("every scheme has a colour of its own, and each planned one its part in the ablation") {
  CHECK(series_class(all_schemes().size() - 1) != series_class(0));
  const std::string steps = ablation_steps(json::parse(call(small_run({"--json"})).out));
  for (const Scheme scheme : all_schemes())
    if (name_of(scheme).starts_with("orrery")) CHECK(contains(steps, ">" + std::string(name_of(scheme)) + "<"));
}

}  // namespace orrery::sim
