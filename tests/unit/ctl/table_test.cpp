#include "tools/ctl/table.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <sstream>

namespace orrery::ctl {

TEST_CASE("columns are as wide as their widest cell, numbers to the right, no blanks at line ends") {
  Table table({{"NAME"}, {"BYTES", Align::kRight}, {"NOTE"}});
  table.add_row({"a", "1", ""});
  table.add_row({"longer-name", "12,345", "x"});
  CHECK(table.to_string() ==
        "NAME          BYTES  NOTE\n"
        "a                 1\n"
        "longer-name  12,345  x\n");
}

TEST_CASE("missing cells are empty and surplus ones dropped") {
  Table table({{"A"}, {"B"}});
  table.add_row({"1"});
  table.add_row({"1", "2", "3"});
  CHECK(table.to_string() == "A  B\n1\n1  2\n");
  CHECK(table.rows() == 2);
}

TEST_CASE("colour changes no column") {
  Table table({{"A"}, {"B"}});
  table.add_row({{"bad", Tone::kBad}, "x"});
  CHECK(table.to_string(true) == "\x1b[1mA\x1b[0m    \x1b[1mB\x1b[0m\n\x1b[31mbad\x1b[0m  x\n");
  CHECK(table.to_string(false) == "A    B\nbad  x\n");
}

TEST_CASE("control characters of a cell do not reach the terminal") {
  Table table({{"A"}});
  table.add_row({"\x1b[2Jx\ny"});
  CHECK(table.to_string(true).find("\x1b[2J") == std::string::npos);
  CHECK(table.to_string() == "A\n?[2Jx?y\n");
}

TEST_CASE("characters of several bytes count as one column") {
  Table table({{"A"}, {"B"}});
  table.add_row({"\xc3\xa4\xc3\xb6", "x"});
  table.add_row({"abc", "y"});
  CHECK(table.to_string() == "A    B\n\xc3\xa4\xc3\xb6   x\nabc  y\n");
}

TEST_CASE("sizes, rates, times and counts read well at every magnitude") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(262'144) == "256 KiB");
  CHECK(human_bytes(UINT64_MAX) == "16 EiB");
  CHECK(human_rate(100'000'000) == "100 Mbit/s");
  CHECK(human_rate(999'999'999) == "1 Gbit/s");
  CHECK(human_rate(400'000'000'000) == "400 Gbit/s");
  CHECK(human_rate(0) == "0 bit/s");
  CHECK(human_duration(0) == "0 ns");
  CHECK(human_duration(1'234'567) == "1.23 ms");
  CHECK(human_duration(-45'600) == "-45.6 us");
  CHECK(human_duration(90'000'000'000) == "90 s");
  CHECK(human_duration(150'000'000'000) == "2 min 30 s");
  CHECK(human_duration(INT64_MIN).find("min") != std::string::npos);
  CHECK(human_percent(0.9876) == "98.8 %");
  CHECK(human_percent(std::nan("")) == "-");
  CHECK(human_count(0) == "0");
  CHECK(human_count(999) == "999");
  CHECK(human_count(1'234'567) == "1,234,567");
}

TEST_CASE("a bar never leaves its width, whatever the fraction") {
  CHECK(bar(0, 4) == "....");
  CHECK(bar(0.5, 4) == "##..");
  CHECK(bar(1, 4) == "####");
  for (double fraction : {-1.0, 2.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(bar(fraction, 4).size() == 4);
}

}  // namespace orrery::ctl
