// dlsym and dlvsym under the hook: names of the tables are wrapped, nothing else is any different.
#include <catch2/catch.hpp>

#include "tests/preload/run_program.h"

namespace orrery {
namespace {

const std::string kDirectory = ORRERY_DL_HOOK_DIRECTORY;

ProgramResult probe(const std::string& what, const std::string& preload,
                    std::vector<std::pair<std::string, std::string>> environment = {}) {
  if (!preload.empty()) environment.emplace_back("LD_PRELOAD", preload);
  return run_program({kDirectory + "/dl_probe", what, kDirectory}, {.preload = false, .environment = environment});
}

std::string library(const std::string& name) {
  return kDirectory + "/libdl_" + name + ".so";
}

std::string hooked(const std::string& what) {
  const auto result = probe(what, library("hook"));
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  return result.out;
}

}  // namespace

TEST_CASE("a name of the tables is wrapped when it is looked up in the library that has it") {
  CHECK(hooked("handle").starts_with("plain 1001\nother 2\nlacking -1 "));
  CHECK(hooked("global").starts_with("default plain 1001\nprogram plain 1001\n"));
}

TEST_CASE("a name that nothing but the hook's library exports is not there, and dlerror says so") {
  CHECK(hooked("global").ends_with(
      "orrery_test_lacking 1 1\norrery_test_lacking 1 1\norrery_test_nothing 1 1\norrery_test_nothing 1 1\n"));
  CHECK(hooked("absent").starts_with(
      "orrery_test_plain 1 1\norrery_test_plain 1 1\norrery_test_lacking 1 1\norrery_test_lacking 1 1\n"));
}

TEST_CASE("a failed lookup in a handle leaves the loader's own words") {
  const std::string without = probe("handle", "").out;
  const std::string with = hooked("handle");
  CHECK(with.substr(with.find("lacking")) == without.substr(without.find("lacking")));
  const std::string unknown = hooked("absent"), unknown_without = probe("absent", "").out;
  CHECK(unknown.substr(unknown.find("unknown")) == unknown_without.substr(unknown_without.find("unknown")));
}

TEST_CASE("a version of the tables is wrapped, an older one of the same name is untouched") {
  CHECK(hooked("versioned") == "1.0 10\n1.1 1011\ndefault 1011\n2.0 1\n");
  CHECK(probe("versioned", "").out == "1.0 10\n1.1 11\ndefault 11\n2.0 1\n");
}

TEST_CASE("RTLD_NEXT means after its caller") {
  const std::string without = probe("next", library("next")).out;
  CHECK(without == "absent 1\nother 2\nplain 1\n");
  CHECK(probe("next", library("hook") + ":" + library("next")).out == without);
}

TEST_CASE("an interposer loaded before the hook finds the hook's wrapper next, and nothing where there is nothing") {
  CHECK(probe("next", library("next") + ":" + library("hook")).out == "absent 1\nother 2\nplain 666\n");
}

TEST_CASE("RTLD_DEFAULT includes what the caller's own group of libraries brought along") {
  CHECK(probe("private", "").out == "other 2\nplain 1\nlacking 1\n");
  CHECK(hooked("private") == "other 2\nplain 1001\nlacking 1\n");
}

TEST_CASE("the hook answers before its own constructor has run") {
  for (const std::string& order :
       {library("hook") + ":" + library("early"), library("early") + ":" + library("hook")}) {
    const auto result = probe("handle", order);
    INFO(order);
    CHECK(result.status == 0);
    CHECK(result.out.starts_with("early: malloc 1, missing 1\nplain 1001\n"));
  }
}

TEST_CASE("looking up what is in no table allocates as much as without the hook") {
  CHECK(hooked("counted") == probe("counted", "").out);
}

TEST_CASE("the kill switch makes every lookup what it is without the hook") {
  for (const char* what : {"handle", "global", "versioned", "private", "counted"}) {
    INFO(what);
    CHECK(probe(what, library("hook"), {{"ORRERY_DISABLE", "1"}}).out == probe(what, "").out);
  }
}

}  // namespace orrery
