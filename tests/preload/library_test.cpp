// What the library's file promises: exports, needs, and the age of the glibc it runs on.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/preload/run_program.h"

namespace orrery {
namespace {

std::string output_of(const std::vector<std::string>& command) {
  const ProgramResult result = run_program(command, {.preload = false});
  if (result.status != 0) FAIL(command[0] << ": " << result.err);
  return result.out;
}

std::set<std::string> lines_of_file(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  std::set<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

std::set<std::string> all_matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (auto match = std::sregex_iterator(text.begin(), text.end(), regex); match != std::sregex_iterator(); ++match)
    found.insert((*match)[1]);
  return found;
}

}  // namespace

TEST_CASE("the library exports exactly the names of the golden list") {
  std::istringstream symbols(output_of({"nm", "-D", "--defined-only", "--format=posix", preload_path()}));
  std::set<std::string> exported;
  for (std::string line; std::getline(symbols, line);) exported.insert(line.substr(0, line.find(' ')));
  CHECK(exported == lines_of_file(ORRERY_PRELOAD_GOLDEN "/exports.txt"));
}

TEST_CASE("the library needs nothing but libc and the old home of dlsym") {
  const std::string dynamic = output_of({"readelf", "-dW", preload_path()});
  CHECK(all_matches(dynamic, "NEEDED.*\\[(.*)\\]") == std::set<std::string>{"libc.so.6", "libdl.so.2"});
  CHECK(dynamic.find("NODELETE") != std::string::npos);
  CHECK(dynamic.find("STATIC_TLS") != std::string::npos);
  CHECK(dynamic.find("TEXTREL") == std::string::npos);
  CHECK(output_of({"readelf", "-lW", preload_path()})
            .find("GNU_STACK      0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x000000 RW ") !=
        std::string::npos);
}

TEST_CASE("the library runs on any glibc from 2.17 on") {
  for (const std::string& version : all_matches(output_of({"objdump", "-T", preload_path()}), "GLIBC_([0-9.]+)")) {
    int major = 0, minor = 0;
    REQUIRE(std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2);
    INFO("GLIBC_" << version);
    CHECK((major == 2 && minor <= 17));
  }
}

}  // namespace orrery
