#include "controller/state/store.h"

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/fakes/scratch_directory.h"

using namespace orrery;
using namespace orrery::state;

namespace {

SavedState sample() {
  const FiveTuple pair{IpAddress::from_v4(0x0a000101), IpAddress::from_v4(0x0a000201), 0, 0, 6};
  const FiveTuple live{IpAddress::from_v4(0x0a000101), IpAddress::from_v4(0x0a000301), 40000, 5000, 6};
  return {.next_flow_id = 8,
          .flows = {{.flow_id = 1,
                     .comm_id = 0xfedcba9876543210,
                     .tuple = pair,
                     .path = {"h1:eth0", "leaf1:p5", "spine1:p2"},
                     .bytes = 1 << 20},
                    {.flow_id = 7, .comm_id = 0, .tuple = live, .path = {}, .bytes = 5}},
          .communicators = {{.comm_id = 0xfedcba9876543210, .ranks = {pair.src, pair.dst}}},
          .signatures = {{.hosts_hash = 42, .op = 1, .bytes = 1 << 20},
                         {.hosts_hash = 42, .op = 2, .bytes = 4096, .peer = 3}}};
}

}  // namespace

TEST_CASE("what was saved last is there after a restart, whole") {
  test::ScratchDirectory directory;
  {
    const auto store = Store::open(directory.file("state.db"));
    CHECK(store->loaded() == SavedState{});
    store->save({.next_flow_id = 3});
    store->save(sample());
    CHECK(store->problem().empty());
  }
  const auto store = Store::open(directory.file("state.db"));
  SavedState loaded = store->loaded();
  // A communicator id with its top bit set sorts as SQLite's signed integers do; one communicator has no order to lose.
  CHECK(loaded == sample());
}

TEST_CASE("saving replaces what was there before") {
  test::ScratchDirectory directory;
  {
    const auto store = Store::open(directory.file("state.db"));
    store->save(sample());
    store->flush();
    store->save({.next_flow_id = 9});
  }
  CHECK(Store::open(directory.file("state.db"))->loaded() == SavedState{.next_flow_id = 9});
}

TEST_CASE("every start has a higher term, also right after the last one") {
  test::ScratchDirectory directory;
  uint64_t last = 0;
  for (int start = 0; start < 5; ++start) {
    const auto store = Store::open(directory.file("state.db"));
    CHECK(store->term() > last);
    last = store->term();
  }
}

TEST_CASE("starts without a file have higher terms as well") {
  const uint64_t first = Store::open("")->term();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(Store::open("")->term() > first);
}

TEST_CASE("without a path nothing is saved and nothing is wrong") {
  const auto store = Store::open("");
  store->save(sample());
  store->flush();
  CHECK(store->problem().empty());
  CHECK(store->term() > 0);
}

TEST_CASE("a damaged file is left alone, reported with the cure, and the store goes on without it") {
  test::ScratchDirectory directory;
  std::ofstream(directory.file("state.db")) << std::string(8192, 'x');
  {
    const auto store = Store::open(directory.file("state.db"));
    CHECK(store->problem().find("move it away") != std::string::npos);
    CHECK(store->term() > 0);
    store->save(sample());
    store->flush();
  }
  std::ifstream file(directory.file("state.db"));
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == std::string(8192, 'x'));
}

TEST_CASE("a file that another controller holds is reported, and that controller keeps it") {
  test::ScratchDirectory directory;
  const auto first = Store::open(directory.file("state.db"));
  {
    const auto second = Store::open(directory.file("state.db"));
    CHECK(second->problem().find("another process") != std::string::npos);
    CHECK(second->term() > 0);
  }
  first->save(sample());
  first->flush();
  CHECK(first->problem().empty());
}

TEST_CASE("a directory that does not exist is reported with what to check") {
  test::ScratchDirectory directory;
  const auto store = Store::open(directory.file("absent/state.db"));
  CHECK(store->problem().find("check that its directory exists") != std::string::npos);
}

TEST_CASE("a file of a newer version is refused, not overwritten") {
  test::ScratchDirectory directory;
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(directory.file("state.db").c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, "PRAGMA user_version=99", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  CHECK(Store::open(directory.file("state.db"))->problem().find("newer controller") != std::string::npos);
}
