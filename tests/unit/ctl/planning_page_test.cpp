// The commands that docs/planning.md shows do what it says: each is run, in the order of the page.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fakes/scratch_directory.h"
#include "tools/ctl/cli.h"

namespace orrery::ctl {
namespace {

// Goes back where it came from.
class WorkingDirectory {
 public:
  explicit WorkingDirectory(const std::filesystem::path& path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~WorkingDirectory() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

std::vector<std::vector<std::string>> commands_of_page(std::ifstream page) {
  std::vector<std::vector<std::string>> commands;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("orreryctl ")) continue;
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    stream >> line;
    for (std::string word; stream >> word;) words.push_back(word);
    commands.push_back(std::move(words));
  }
  return commands;
}

}  // namespace

TEST_CASE("every command on the page about planning runs as it stands there") {
  const auto commands = commands_of_page(std::ifstream(std::string(ORRERY_REFERENCE) + "/../planning.md"));
  REQUIRE(commands.size() >= 10);
  const test::ScratchDirectory directory;
  const std::string hosts = std::string(ORRERY_FIXTURES) + "/hosts/three-pods.csv";
  std::filesystem::copy_file(hosts, directory.file("hosts.csv"));
  std::ofstream(directory.file("busy.txt")) << "h1 h2\n";
  const WorkingDirectory here(std::filesystem::path(directory.file("x")).parent_path());
  for (const auto& words : commands) {
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    std::string line;
    for (const std::string& word : words) line += " " + word;
    CAPTURE(line, err.str());
    CHECK(run(words, console) == kOk);
    CHECK(err.str() == "");
  }
  for (const char* made : {"fabric.yaml", "cables.csv", "job.yaml", "job-placed.yaml", "site.yaml"}) {
    CAPTURE(made);
    CHECK(std::filesystem::file_size(made) > 0);
  }
}

}  // namespace orrery::ctl
