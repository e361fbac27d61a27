// Mutates good and bad topology files with a fixed seed. Whatever the bytes, the reader answers with a topology that
// keeps every promise of a good one, or with an error that names the file; it neither crashes nor hangs.
// ORRERY_FUZZ_ITERATIONS and ORRERY_FUZZ_SEED change the length and the place.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "controller/fabric/graph.h"
#include "controller/fabric/topology.h"

namespace orrery::fabric {
namespace {

constexpr std::string_view kTokens[] = {
    "[",           "]",      "{",        "}",         ":",         "- ",
    "\n",          "  ",     "&a ",      "*a",        "'",         "\"",
    "|\n",         ">\n",    "? ",       "! ",        "---\n",     "...\n",
    "%YAML 1.2",   "\t",     "#",        "null",      "~",         "0",
    "-1",          "1e9",    "\xff\xfe", "\0",        "h1:eth0",   "leaf1:p1",
    "name: ",      "ports",  "nics",     "<<:",       "schema",    "18446744073709551616",
    "rate_bps: 0", "links:", "hosts:",   "switches:", "address: ", "!!binary ",
    "\xe2\x80\xa8"};

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(ORRERY_FIXTURES) + "/topologies")) {
    std::ifstream file(entry.path());
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::sort(texts.begin(), texts.end());  // the order of a folder is not the same everywhere
  return texts;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutate(const std::vector<std::string>& texts) {
    std::string text = texts[below(texts.size())];
    if (below(2) == 0) {  // a small change: the file often stays good, or is nearly so
      change_digit(text);
      return text;
    }
    for (size_t i = 1 + below(4); i > 0 && !text.empty(); --i) mutate_once(text, texts);
    return text;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void mutate_once(std::string& text, const std::vector<std::string>& texts) {
    const size_t at = below(text.size()), length = std::min<size_t>(1 + below(40), text.size() - at);
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), length));
        break;
      case 3:
        text.insert(at, kTokens[below(std::size(kTokens))]);
        break;
      case 4:
        text.replace(at, length, kTokens[below(std::size(kTokens))]);
        break;
      case 5: {
        const std::string& other = texts[below(texts.size())];
        text = text.substr(0, at) + other.substr(below(other.size()));
        break;
      }
      default:
        swap_lines(text);
    }
  }

  void change_digit(std::string& text) {
    const size_t at = text.find_first_of("0123456789", below(text.size()));
    if (at != std::string::npos) text[at] = static_cast<char>('0' + below(10));
  }

  void swap_lines(std::string& text) {
    std::vector<std::string> lines(1);
    for (char c : text) {
      lines.back() += c;
      if (c == '\n') lines.emplace_back();
    }
    std::swap(lines[below(lines.size())], lines[below(lines.size())]);
    text = fmt::format("{}", fmt::join(lines, ""));
  }

  std::mt19937_64 random_;
};

// What must hold of every text. Returns whether it was a good topology.
bool check_promises(const std::string& text) {
  const auto topology = parse_topology(text, "fuzz.yaml");
  if (!topology) {
    REQUIRE(topology.error().code == ErrorCode::kInvalidArgument);
    REQUIRE(topology.error().message.starts_with("fuzz.yaml"));
    return false;
  }
  REQUIRE(validate(*topology));
  const auto again = parse_topology(to_yaml(*topology), "again.yaml");
  REQUIRE(again);
  REQUIRE(*again == *topology);
  REQUIRE_FALSE(to_json(*topology).empty());
  const Graph graph = Graph::build(*topology);
  REQUIRE(graph.links().size() == 2 * topology->links.size());
  const Nic& first = graph.nics().front();
  const Nic& last = graph.nics().back();
  for (const Path& path : graph.paths(first, last, 16)) {
    REQUIRE(graph.link(path.front()).from == first.host);
    REQUIRE(graph.link(path.back()).to == last.host);
    for (size_t i = 1; i < path.size(); ++i) REQUIRE(graph.link(path[i]).from == graph.link(path[i - 1]).to);
  }
  (void)graph.ecmp_path({first.address, last.address, 1, 2, 6});
  return true;
}

}  // namespace

TEST_CASE("no topology file makes the reader crash, hang or return a topology that breaks its promises") {
  const std::vector<std::string> texts = seeds();
  REQUIRE(texts.size() >= 7);
  Mutator mutator(setting("ORRERY_FUZZ_SEED", 1));
  size_t good = 0;
  const uint64_t iterations = setting("ORRERY_FUZZ_ITERATIONS", 4000);
  for (uint64_t i = 0; i < iterations; ++i) {
    const std::string text = mutator.mutate(texts);
    INFO("iteration " << i << "\n" << text);
    good += check_promises(text);
  }
  // Both outcomes occur, or the mutations are too weak or too strong to find anything.
  if (iterations >= 1000) {
    CHECK(good > iterations / 50);
    CHECK(good < iterations * 9 / 10);
  }
}

}  // namespace orrery::fabric
