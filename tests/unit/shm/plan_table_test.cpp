#include "common/shm/plan_table.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "common/shm/plan_reader.h"

namespace orrery::shm {
namespace {

constexpr uint64_t kNow = 1000;
constexpr uint64_t kLater = 2000;

struct Reader {
  explicit Reader(const PlanTable& table) : bytes(table.bytes()) {
    base = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, table.fd(), 0);
    REQUIRE(base != MAP_FAILED);
    REQUIRE(reader.open(base, bytes));
  }
  ~Reader() { munmap(base, bytes); }
  void* base;
  size_t bytes;
  PlanReader reader;
};

orrery_plan_entry entry_to(uint8_t host, uint64_t flow_id, uint16_t ordinal = ORRERY_PLAN_ANY_ORDINAL) {
  orrery_plan_entry entry{};
  entry.flow_id = flow_id;
  entry.remote_address[15] = host;
  entry.ordinal = ordinal;
  entry.protocol = 6;
  return entry;
}

PlanQuery query_to(uint8_t host, uint16_t ordinal = 0) {
  PlanQuery query{};
  query.remote_address[15] = host;
  query.ordinal = ordinal;
  query.protocol = 6;
  return query;
}

uint64_t flow_found(const Reader& process, const PlanQuery& query, uint64_t now = kNow) {
  PlanAnswer answer;
  return process.reader.find(query, now, &answer) ? answer.entry.flow_id : 0;
}

}  // namespace

TEST_CASE("a flow finds its own entry, and an exact ordinal wins over one for all") {
  auto table = PlanTable::create(8).value();
  Reader process(table);
  const std::vector<orrery_plan_entry> entries{entry_to(1, 10), entry_to(2, 20), entry_to(2, 21, 1),
                                               entry_to(3, 30, 0)};
  REQUIRE(table.publish(entries, {.term = 1, .revision = 1, .valid_until_ns = kLater}));
  CHECK(flow_found(process, query_to(1)) == 10);
  CHECK(flow_found(process, query_to(2, 0)) == 20);
  CHECK(flow_found(process, query_to(2, 1)) == 21);
  CHECK(flow_found(process, query_to(3, 0)) == 30);
  CHECK(flow_found(process, query_to(3, 1)) == 0);
  CHECK(flow_found(process, query_to(4)) == 0);
  PlanQuery udp = query_to(1);
  udp.protocol = 17;
  CHECK(flow_found(process, udp) == 0);
}

TEST_CASE("an entry for another local address is not taken") {
  auto table = PlanTable::create(8).value();
  Reader process(table);
  orrery_plan_entry entry = entry_to(1, 10);
  entry.local_address[15] = 77;
  REQUIRE(table.publish({&entry, 1}, {.valid_until_ns = kLater}));
  PlanQuery query = query_to(1);
  CHECK(flow_found(process, query) == 10);
  query.local_address[15] = 77;
  CHECK(flow_found(process, query) == 10);
  query.local_address[15] = 78;
  CHECK(flow_found(process, query) == 0);
}

TEST_CASE("an expired, revoked or never published plan is no plan") {
  auto table = PlanTable::create(8).value();
  Reader process(table);
  CHECK(flow_found(process, query_to(1)) == 0);
  const orrery_plan_entry entry = entry_to(1, 10);
  REQUIRE(table.publish({&entry, 1}, {.valid_until_ns = kLater}));
  CHECK(flow_found(process, query_to(1), kLater - 1) == 10);
  CHECK(flow_found(process, query_to(1), kLater) == 0);
  table.renew(2 * kLater, false);
  CHECK(flow_found(process, query_to(1), kLater) == 10);
  table.revoke();
  CHECK(flow_found(process, query_to(1)) == 0);
}

TEST_CASE("a suspended clock is passed on") {
  auto table = PlanTable::create(8).value();
  Reader process(table);
  const orrery_plan_entry entry = entry_to(1, 10);
  REQUIRE(table.publish({&entry, 1}, {.valid_until_ns = kLater, .release_suspended = true}));
  PlanAnswer answer;
  REQUIRE(process.reader.find(query_to(1), kNow, &answer));
  CHECK(answer.release_suspended);
}

TEST_CASE("a plan too large for the table changes nothing") {
  auto table = PlanTable::create(2).value();
  Reader process(table);
  std::vector<orrery_plan_entry> entries{entry_to(1, 10), entry_to(2, 20)};
  REQUIRE(table.publish(entries, {.valid_until_ns = kLater}));
  entries.push_back(entry_to(3, 30));
  const auto status = table.publish(entries, {.valid_until_ns = kLater});
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().code == ErrorCode::kExhausted);
  CHECK(flow_found(process, query_to(2)) == 20);
}

TEST_CASE("an entry that makes no sense is no plan") {
  auto table = PlanTable::create(2).value();
  Reader process(table);
  orrery_plan_entry entry = entry_to(1, 10);
  entry.hop_count = ORRERY_PLAN_MAX_HOPS + 1;
  REQUIRE(table.publish({&entry, 1}, {.valid_until_ns = kLater}));
  CHECK(flow_found(process, query_to(1)) == 0);
  entry.hop_count = 1;
  entry.hops[0] = {.seed = 1, .group_size = 4, .member = 4, .hash_function = 1};
  REQUIRE(table.publish({&entry, 1}, {.valid_until_ns = kLater}));
  CHECK(flow_found(process, query_to(1)) == 0);
  entry.hop_count = 0;
  entry.src_port_first = 2;
  entry.src_port_last = 1;
  REQUIRE(table.publish({&entry, 1}, {.valid_until_ns = kLater}));
  CHECK(flow_found(process, query_to(1)) == 0);
}

TEST_CASE("the process cannot write the plan, resize it or lift the seals") {
  auto table = PlanTable::create(4).value();
  CHECK(mmap(nullptr, table.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, table.fd(), 0) == MAP_FAILED);
  void* mapping = mmap(nullptr, table.bytes(), PROT_READ, MAP_SHARED, table.fd(), 0);
  REQUIRE(mapping != MAP_FAILED);
  CHECK(mprotect(mapping, table.bytes(), PROT_READ | PROT_WRITE) != 0);
  munmap(mapping, table.bytes());
  CHECK(write(table.fd(), "x", 1) < 0);
  CHECK(ftruncate(table.fd(), 0) != 0);
  CHECK(ftruncate(table.fd(), static_cast<off_t>(table.bytes()) * 2) != 0);
  CHECK(fcntl(table.fd(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("a reader never sees half of one plan and half of another") {
  auto table = PlanTable::create(16).value();
  Reader process(table);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    std::vector<orrery_plan_entry> entries(16);
    for (uint64_t version = 1; !stop; ++version) {
      for (size_t i = 0; i < entries.size(); ++i) {
        entries[i] = entry_to(static_cast<uint8_t>(i), version);
        entries[i].release_offset_ns = version;
        entries[i].pace_bps = ~version;
        entries[i].hops[3].seed = static_cast<uint32_t>(version);
      }
      if (!table.publish(entries, {.term = 1, .revision = version, .valid_until_ns = kLater})) stop = true;
    }
  });
  uint64_t found = 0, last = 0;
  for (int i = 0; i < 200'000 || found == 0; ++i) {
    PlanAnswer answer;
    if (!process.reader.find(query_to(15), kNow, &answer)) continue;
    ++found;
    const uint64_t version = answer.entry.flow_id;
    if (answer.entry.release_offset_ns != version || answer.entry.pace_bps != ~version ||
        answer.entry.hops[3].seed != static_cast<uint32_t>(version) || version < last) {
      stop = true;
      writer.join();
      FAIL("torn entry of plan " << version);
    }
    last = version;
  }
  stop = true;
  writer.join();
  CHECK(found > 0);
}

TEST_CASE("a garbage table never makes the reader crash or look outside it") {
  std::mt19937_64 random(GENERATE(11, 12, 13));
  constexpr uint32_t kCapacity = 32;
  std::vector<uint64_t> memory(plan_table_bytes(kCapacity) / 8);
  for (int round = 0; round < 300; ++round) {
    for (uint64_t& word : memory) word = random();
    auto* header = reinterpret_cast<orrery_plan_header*>(memory.data());
    PlanReader reader;
    CHECK_FALSE(reader.open(memory.data(), memory.size() * 8));
    header->magic = ORRERY_PLAN_MAGIC;
    header->abi_version = ORRERY_ABI_VERSION;
    if (header->capacity % 2 == 0) CHECK_FALSE(reader.open(memory.data(), memory.size() * 8));
    header->capacity = kCapacity;
    REQUIRE(reader.open(memory.data(), memory.size() * 8));
    header->sequence &= ~1u;
    PlanQuery query{};
    query.protocol = static_cast<uint8_t>(random());
    std::memcpy(query.remote_address, plan_entries(header)[random() % kCapacity].remote_address, 16);
    PlanAnswer answer;
    if (reader.find(query, kNow, &answer)) {
      CHECK(answer.index < kCapacity);
      CHECK(answer.entry.hop_count <= ORRERY_PLAN_MAX_HOPS);
    }
    header->sequence |= 1u;
    CHECK_FALSE(reader.find(query, kNow, &answer));
  }
}

}  // namespace orrery::shm
