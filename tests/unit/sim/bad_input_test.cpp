// Bad workload files, as tables: what is changed in a good one, and what is told of it.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/fakes/scratch_directory.h"
#include "tests/unit/sim/workload_samples.h"
#include "tools/sim/workload/input.h"

namespace orrery::sim {
namespace {

struct Case {
  std::string from, to;  // in the good file
  std::string told;      // the message begins with it
};

std::string answer(Format format, const std::vector<Input>& inputs) {
  ReadOptions options;
  if (format == Format::kSimai) options.ranks = 4;
  const auto workload = read_workload(format, inputs, options);
  return workload ? "taken" : workload.error().message;
}

void check_cases(Format format, const std::string& good, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    std::string text = good;
    const size_t at = text.find(c.from);
    REQUIRE(at != std::string::npos);
    text.replace(at, c.from.size(), c.to);
    const std::string told = answer(format, {{"f", text}});
    INFO(c.from << " -> " << c.to << "\n" << told);
    CHECK(told.starts_with(c.told));
  }
}

using Node = samples::ChakraSample;
std::string answer_of_traces(const std::vector<Node>& first, const std::vector<Node>& second) {
  return answer(Format::kChakra, {{"t.0.et", samples::chakra_file(first)}, {"t.1.et", samples::chakra_file(second)}});
}

}  // namespace

TEST_CASE("AICB: numbers that are none, or contradict each other") {
  check_cases(Format::kAicb, samples::kAicb,
              {{"rank7]", "rank1000000000]", "f:1: "},
               {"rank7]", "rank-7]", "f:1: "},
               {"tp_group,2", "tp_group,0", "f:5: comm_group_size '0' is no number of ranks"},
               {"tp_group,2", "tp_group,4294967298", "f:5: comm_group_size"},
               {"all,8", "all,16", "f:8: groups of 16 ranks, 1 apart, do not divide 8 ranks"},
               {"1048576", "nan", "f:7: msg_size 'nan' is no number of bytes"},
               {"1048576", "1e30", "f:7: msg_size"},
               {"25000", "inf", "f:6: _elapsed_time 'inf' is no time"},
               {"25000", "-1", "f:6: _elapsed_time"},
               {"None,None,None,2", "None,None,None,0", "f:7: count '0' is not within 1..1000000"},
               {"msg_size", "size", "f:2: the header lacks the column msg_size"},
               {"CommType.epoch_end", "[rank0 ~ rank15]\nCommType.epoch_end", "f:4: 16 ranks, but 8 further up"}});
}

TEST_CASE("AICB: a file that ends in the midst of a line is cut off, also where what is missing is not needed") {
  const size_t row = samples::kAicb.find("CommType.reduce_scatter");
  const size_t end = samples::kAicb.find('\n', row);
  for (size_t at = row + 1; at < end; ++at) {
    const std::string told = answer(Format::kAicb, {{"f", samples::kAicb.substr(0, at)}});
    CAPTURE(at, told);
    CHECK(told.starts_with("f:7: "));
  }
  CHECK(answer(Format::kAicb, {{"f", samples::kAicb.substr(0, end)}}) == "taken");  // only without a line break
}

TEST_CASE("SimAI: numbers that are none, or contradict each other") {
  check_cases(Format::kSimai, samples::kSimai,
              {{"NPU_group: 2", "NPU_group: 3", "f:3: groups of 3 ranks, 1 apart, do not divide 4 ranks"},
               {"NPU_group: 2", "NPU_group: 1000000000", "f:1: 'model_parallel_NPU_group:' 1000000000 is too large"},
               {"checkpoints: 0", "all_gpus: 16", "f: is of 16 ranks (all_gpus:), not 4; leave ranks out"},
               {"\n2\n", "\n-2\n", "f:2: '-2' is no number of layers"},
               {"\n2\n", "\n1000000000\n", "f: has 2 layers and announces 1000000000; is it cut off?"},
               {"1048576", "99999999999999999999", "f:4: '99999999999999999999' is no number of bytes"},
               {" 3000", " nan", "f:4: 'nan' is no time in nanoseconds"}});
}

TEST_CASE("htsim: numbers that are none, or contradict each other") {
  check_cases(Format::kHtsim, samples::kHtsim,
              {{"Nodes 4", "Nodes 1000000000", "f:1: Nodes takes one number of at most"},
               {"0->1", "9->1", "f:4: 9->1: there are 4 nodes, from 0"},
               {"0->1", "1->1", "f:4: 1->1 goes nowhere"},
               {"size 50000", "size 18446744073709551616", "f:5: 'size' needs a whole number"},
               {"start 5000000", "start nan", "f:6: start needs a time"},
               {"count 1", "count 1000000000000000000", "f:9: trigger 2 is set off by 1 connections and fires after"},
               {"trigger id 1 oneshot\n", "", "f: announces 2 triggers and has 1; is it cut off?"}});
  CHECK(answer(Format::kHtsim, {{"f",
                                 "Nodes 2\n0->1 start 0 size 5\n0->1 trigger 2 size 5 recv_done_trigger 1\n"
                                 "1->0 trigger 1 size 5 recv_done_trigger 2\ntrigger id 1 oneshot\n"
                                 "trigger id 2 oneshot\n"}})
            .starts_with("f:3: 0->1 waits for itself, by way of triggers; give one"));
}

TEST_CASE("nccl-tests: numbers that are none, or contradict each other") {
  const std::string size = "     1048576 ";
  check_cases(Format::kNcclTests, samples::kNcclTests,
              {{size, "     99999999999999999999 ", "f:13: '99999999999999999999' is no number of bytes"},
               {size, "     -1048576 ", "f:13: '-1048576' is no number of bytes"},
               {size, "     1152921504606846976 ", "f:13: 1152921504606846976 bytes is too large"},
               {"105.9", "nan", "f:13: 'nan' is no number"},
               {"sum      -1    105.9", "sum      9    105.9", "f:13: root 9 of 4 ranks; count from 0"},
               {"Rank  3", "Rank  1000000000", "f:7: rank 1000000000 is too large"},
               {"Rank  3", "Rank  5", "f: has '# Rank' lines of 4 ranks, the last of which is rank 5"}});
  const size_t row = samples::kNcclTests.find("2097152");
  CHECK(answer(Format::kNcclTests, {{"f", samples::kNcclTests.substr(0, row + 4)}}).starts_with("f:14: 1 fields;"));
}

TEST_CASE("intents: numbers that are none, or contradict each other") {
  check_cases(Format::kIntents, samples::kIntents,
              {{R"("nranks":4)", R"("nranks":1000000000)", "f:1: nranks is no whole number of at most"},
               {R"("nranks":4)", R"("nranks":-1)", "f:1: nranks is no whole number"},
               {R"(["h1","h2"])", R"(["h1","h1"])", "f:1: host 'h1' stands there twice"},
               {R"(["h1","h2"])", "[[[[[[[[[[[[]]]]]]]]]]]]", "f:1: "},
               {"500000", "9223372036854775808", "f:3: bytes is no whole number"},
               {"1200000", "1", "f:3: a window that ends before it starts"},
               {"500000", "NaN", "f:3: is not JSON"}});
}

TEST_CASE("Chakra: nodes that contradict each other are named with rank and byte") {
  const Node send{.id = 2, .type = 5, .numbers = {{"comm_dst", 1}, {"comm_size", 8'000}, {"comm_tag", 5}}};
  const Node receive{.id = 1, .type = 6, .numbers = {{"comm_src", 0}, {"comm_size", 8'000}, {"comm_tag", 5}}};
  CHECK(answer_of_traces({send}, {receive}) == "taken");
  Node far = send, self = send, little = receive;
  far.numbers[0].second = uint64_t{1} << 40;
  self.numbers[0].second = 0;
  little.numbers[1].second = 5;
  CHECK(answer_of_traces({far}, {receive}).find("t.0.et: byte 9: node 2: sends to rank 1099511627776; there are") == 0);
  CHECK(answer_of_traces({self}, {receive}) == "t.0.et: byte 9: node 2: sends to itself");
  CHECK(answer_of_traces({send}, {little}) ==
        "t.1.et: byte 9: node 1: receives 5 bytes, and node 2 of rank 0 sends 8000");
  CHECK(answer_of_traces({send}, {receive, receive}).ends_with("node 1: stands there twice"));
  // Node 3 only follows the circle of nodes 1 and 2.
  const Node one{.id = 1, .type = 4, .after = {2}}, two{.id = 2, .type = 4, .after = {1}},
      three{.id = 3, .type = 4, .after = {1}};
  CHECK(answer_of_traces({three, one, two}, {receive}).find("node 3") == std::string::npos);
  const Node root{.id = 9, .type = 7, .numbers = {{"comm_type", 5}, {"comm_size", 8}, {"root", 99}}};
  CHECK(answer_of_traces({root}, {root}).find("t.0.et: byte 9: node 9: root 99 is none of its 2 ranks") == 0);
}

TEST_CASE("Chakra: ranks that wait for each other are named") {
  const auto send = [](uint64_t id, uint64_t to, uint64_t tag, std::vector<uint64_t> after) {
    return Node{.id = id, .type = 5, .after = std::move(after), .numbers = {{"comm_dst", to}, {"comm_tag", tag}}};
  };
  const auto receive = [](uint64_t id, uint64_t from, uint64_t tag) {
    return Node{.id = id, .type = 6, .numbers = {{"comm_src", from}, {"comm_tag", tag}}};
  };
  const std::string told =
      answer_of_traces({receive(1, 1, 5), send(2, 1, 6, {1})}, {receive(1, 0, 6), send(2, 0, 5, {1})});
  CHECK(told.find("t.0.et: byte ") == 0);
  CHECK(told.find("waits for itself, by way of other ranks") != std::string::npos);
}

TEST_CASE("a file of any format that is cut off anywhere is taken, or refused by its name") {
  for (const auto& [format, inputs] : samples::all()) {
    const std::string good = inputs[0].text;
    size_t refused = 0;
    for (size_t at = 0; at < good.size(); ++at) {
      std::vector<Input> cut = inputs;
      cut[0].text.resize(at);
      const std::string told = answer(format, cut);
      CAPTURE(name_of(format), at, told);
      CHECK((told == "taken" || told.starts_with(inputs[0].name.substr(0, 2))));
      refused += told != "taken";
    }
    CAPTURE(name_of(format), refused, good.size());
    CHECK(refused > good.size() / 4);
  }
}

TEST_CASE("what is no text, or no file, is told so with the line") {
  const test::ScratchDirectory folder;
  const std::string path = folder.file("w");
  const auto told = [&](Format format, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    ReadOptions options;
    options.ranks = 8;
    const auto workload = load_workload(format, path, options);
    return workload ? "taken" : workload.error().message.substr(path.size());
  };
  CHECK(told(Format::kAicb, "\xef\xbb\xbf" + samples::kAicb) == "taken");
  CHECK(told(Format::kSimai, "\xef\xbb\xbf" + samples::kSimai) == "taken");
  CHECK(told(Format::kSimai, std::string("H\0Y\0\n\0", 6)).starts_with(":1: a zero byte; "));
  CHECK(told(Format::kAicb, samples::kAicb + std::string(kMaxLineBytes + 1, ',')).starts_with(":10: a line of more"));
  std::string windows;
  for (const char c : samples::kSimai) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(told(Format::kSimai, windows) == "taken");
  CHECK(load_workload(Format::kAicb, "/dev/zero", {}).error().message.starts_with("/dev/zero: more than 268435456"));
  CHECK(load_workload(Format::kAicb, folder.file(""), {}).error().message.ends_with(": Is a directory"));
  CHECK(load_workload(Format::kChakra, folder.file(""), {}).error().message.ends_with("No such file or directory"));
}

}  // namespace orrery::sim
