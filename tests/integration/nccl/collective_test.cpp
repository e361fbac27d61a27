// Every collective, data type and reduction against the plain reference, with ranks as processes on loopback.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "tests/integration/nccl/ranks.h"
#include "tests/integration/nccl/reference.h"

namespace orrery::test {
namespace {

struct Session {
  RankContext& context;
  ncclComm_t comm = nullptr;

  explicit Session(RankContext& ranks) : context(ranks) {
    expect_success(ncclCommInitRank(&comm, context.nranks, context.id, context.rank), "ncclCommInitRank");
  }
  ~Session() { ncclCommDestroy(comm); }
};

std::vector<double> inputs(ncclDataType_t type, int rank, size_t first, size_t count) {
  std::vector<double> values;
  for (size_t i = first; i < first + count; ++i) values.push_back(input_value(type, rank, i));
  return values;
}

struct Reducing {
  ncclDataType_t type;
  ncclRedOp_t op;         // as called
  ncclRedOp_t reference;  // as the reference names it
  double scale = 1;
  std::string text;
};

std::vector<double> reduced(const Reducing& what, int nranks, size_t first, size_t count) {
  std::vector<double> values;
  for (size_t i = first; i < first + count; ++i) {
    values.push_back(reduced_value(what.type, what.reference, nranks, i, what.scale));
  }
  return values;
}

void finish(ncclResult_t result, const std::string& text) {
  expect_success(result, text);
  expect_success(hostncclStreamSynchronize(nullptr), text + ", completion");
}

void compare(ncclDataType_t type, const void* data, const std::vector<double>& expected, int nranks,
             const std::string& text) {
  const std::string difference = first_difference(type, data, expected, nranks);
  expect(difference.empty(), text + ": " + difference);
}

void check_all_reduce(Session& session, const Reducing& what, size_t count, bool in_place) {
  const int nranks = session.context.nranks;
  const std::string text = "AllReduce " + what.text + " count " + std::to_string(count) + (in_place ? " in place" : "");
  auto send = encode(what.type, inputs(what.type, session.context.rank, 0, count));
  const auto before = send;
  std::vector<unsigned char> recv(send.size() + 1, 0x5a);
  void* target = in_place ? send.data() : recv.data();
  finish(ncclAllReduce(send.data(), target, count, what.type, what.op, session.comm, nullptr), text);
  compare(what.type, target, reduced(what, nranks, 0, count), nranks, text);
  expect(in_place || send == before, text + ": the send buffer was changed");
  expect(recv.back() == 0x5a, text + ": wrote behind the receive buffer");
}

void check_reduce_scatter(Session& session, const Reducing& what, size_t count, bool in_place) {
  const int nranks = session.context.nranks;
  const auto rank = static_cast<size_t>(session.context.rank);
  const std::string text =
      "ReduceScatter " + what.text + " count " + std::to_string(count) + (in_place ? " in place" : "");
  auto send = encode(what.type, inputs(what.type, session.context.rank, 0, count * static_cast<size_t>(nranks)));
  const auto before = send;
  std::vector<unsigned char> recv(count * bytes_of(what.type) + 1, 0x5a);
  unsigned char* target = in_place ? send.data() + rank * count * bytes_of(what.type) : recv.data();
  finish(ncclReduceScatter(send.data(), target, count, what.type, what.op, session.comm, nullptr), text);
  compare(what.type, target, reduced(what, nranks, rank * count, count), nranks, text);
  expect(in_place || send == before, text + ": the send buffer was changed");
  expect(recv.back() == 0x5a, text + ": wrote behind the receive buffer");
}

void check_reduce(Session& session, const Reducing& what, size_t count, bool in_place) {
  const int nranks = session.context.nranks;
  const int root = static_cast<int>(count % static_cast<size_t>(nranks));
  const std::string text = "Reduce " + what.text + " count " + std::to_string(count) + " root " + std::to_string(root);
  auto send = encode(what.type, inputs(what.type, session.context.rank, 0, count));
  std::vector<unsigned char> recv(send.size() + 1, 0x5a);
  const bool is_root = session.context.rank == root;
  void* target = in_place ? send.data() : recv.data();
  finish(ncclReduce(send.data(), target, count, what.type, what.op, root, session.comm, nullptr), text);
  if (is_root) compare(what.type, target, reduced(what, nranks, 0, count), nranks, text);
  const std::vector<unsigned char> untouched(recv.size(), 0x5a);
  expect(is_root || recv == untouched, text + ": a rank that is not the root was written to");
}

void check_moves(Session& session, ncclDataType_t type, size_t count, bool in_place) {
  const int nranks = session.context.nranks;
  const int rank = session.context.rank;
  const int root = static_cast<int>((count + 1) % static_cast<size_t>(nranks));
  const std::string text = "type " + std::to_string(type) + " count " + std::to_string(count);
  auto send = encode(type, inputs(type, rank, 0, count));
  std::vector<double> gathered;
  for (int r = 0; r < nranks; ++r) {
    const auto own = inputs(type, r, 0, count);
    gathered.insert(gathered.end(), own.begin(), own.end());
  }
  std::vector<unsigned char> all(gathered.size() * bytes_of(type) + 1, 0x5a);
  const void* source = send.data();
  if (in_place) {
    unsigned char* own = all.data() + static_cast<size_t>(rank) * send.size();
    std::copy(send.begin(), send.end(), own);
    source = own;
  }
  finish(ncclAllGather(source, all.data(), count, type, session.comm, nullptr), "AllGather " + text);
  compare(type, all.data(), gathered, 1, "AllGather " + text);
  expect(all.back() == 0x5a, "AllGather " + text + ": wrote behind the receive buffer");

  std::vector<unsigned char> recv(send.size(), 0x5a);
  if (in_place) {
    finish(ncclBcast(send.data(), count, type, root, session.comm, nullptr), "Bcast " + text);
    compare(type, send.data(), inputs(type, root, 0, count), 1, "Bcast " + text);
  } else {
    const void* from = rank == root ? send.data() : nullptr;
    finish(ncclBroadcast(from, recv.data(), count, type, root, session.comm, nullptr), "Broadcast " + text);
    compare(type, recv.data(), inputs(type, root, 0, count), 1, "Broadcast " + text);
  }
}

void check_type(Session& session, ncclDataType_t type, const std::vector<size_t>& counts) {
  std::vector<Reducing> reductions;
  for (const auto op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
    reductions.push_back({type, op, op, 1, "type " + std::to_string(type) + " op " + std::to_string(op)});
  }
  auto scalar = encode(type, {2});
  for (const auto residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
    ncclRedOp_t op;
    expect_success(ncclRedOpCreatePreMulSum(&op, scalar.data(), type, residence, session.comm), "PreMulSum");
    reductions.push_back({type, op, ncclSum, 2, "type " + std::to_string(type) + " premultiplied"});
  }
  bool in_place = false;
  for (const size_t count : counts) {
    for (const auto& reduction : reductions) {
      check_all_reduce(session, reduction, count, in_place);
      check_reduce_scatter(session, reduction, count, in_place);
      check_reduce(session, reduction, count, in_place);
      in_place = !in_place;
    }
    check_moves(session, type, count, false);
    check_moves(session, type, count, true);
  }
  for (size_t i = 5; i < reductions.size(); ++i)
    expect_success(ncclRedOpDestroy(reductions[i].op, session.comm), "RedOpDestroy");
}

void check_everything(int nranks, const std::vector<size_t>& counts) {
  const auto found = run_ranks(nranks, [&](RankContext& context) {
    Session session(context);
    for (const auto type : kTypes) check_type(session, type, counts);
  });
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

struct Environment {
  explicit Environment(std::initializer_list<std::pair<const char*, const char*>> set) : variables(set) {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables) ::unsetenv(name);
  }
  std::vector<std::pair<const char*, const char*>> variables;
};

TEST_CASE("every collective, type and reduction is right for any number of ranks and odd counts") {
  const Environment environment{{"NCCL_SOCKET_IFNAME", "lo"}};
  const int nranks = GENERATE(1, 2, 3, 5, 8);
  check_everything(nranks, {0, 1, 13, 1021});
}

TEST_CASE("the same holds with several channels and several connections per channel") {
  const Environment environment{{"NCCL_SOCKET_IFNAME", "lo"},
                                {"NCCL_MIN_NCHANNELS", "3"},
                                {"NCCL_NSOCKS_PERTHREAD", "2"},
                                {"NCCL_SOCKET_NTHREADS", "2"}};
  check_everything(3, {5, 997});
}

TEST_CASE("operations larger than the buffers between ranks are right and do not block one another") {
  const Environment environment{
      {"NCCL_SOCKET_IFNAME", "lo"}, {"HOSTNCCL_SLICE_BYTES", "4096"}, {"NCCL_NSOCKS_PERTHREAD", "3"}};
  const int nranks = GENERATE(2, 5);
  const auto found = run_ranks(nranks, [&](RankContext& context) {
    Session session(context);
    const Reducing sum{ncclFloat32, ncclSum, ncclSum, 1, "float sum"};
    for (const size_t count : {size_t{65537}, size_t{400'003}}) {
      check_all_reduce(session, sum, count, false);
      check_reduce_scatter(session, sum, count, true);
      check_reduce(session, sum, count, false);
      check_moves(session, ncclFloat32, count, false);
    }
  });
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

TEST_CASE("operations enqueued without waiting complete in order") {
  const Environment environment{{"NCCL_SOCKET_IFNAME", "lo"}};
  const auto found = run_ranks(4, [](RankContext& context) {
    Session session(context);
    std::vector<int32_t> value(1000, 1);
    for (int i = 0; i < 5; ++i) {
      expect_success(ncclAllReduce(value.data(), value.data(), value.size(), ncclInt32, ncclSum, session.comm, nullptr),
                     "AllReduce");
    }
    expect_success(hostncclStreamSynchronize(nullptr), "completion");
    for (const int32_t element : value) expect(element == 1024, "an element is " + std::to_string(element));
  });
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

}  // namespace
}  // namespace orrery::test
