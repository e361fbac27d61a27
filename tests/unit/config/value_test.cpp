#include "common/config/value.h"

#include <catch2/catch.hpp>

using namespace orrery::config;

TEST_CASE("integers are read whole, within their range, and not otherwise", "[config]") {
  CHECK(*parse_number<uint16_t>("65535", 0, 65535) == 65535);
  CHECK(*parse_number<int32_t>("-5", -10, 10) == -5);
  for (const char* wrong : {"", "5x", " 5", "0x10", "-1", "101", "99999999999999999999999", "5.0"})
    CHECK_FALSE(parse_number<uint32_t>(wrong, 0, 100));
  CHECK(parse_number<uint32_t>("101", 0, 100).error().message == "'101' is not an integer from 0 to 100");
}

TEST_CASE("real numbers refuse what is not a number or out of range", "[config]") {
  CHECK(*parse_number<double>("0.25", 0.0, 1.0) == 0.25);
  CHECK(*parse_number<double>("1e-3", 0.0, 1.0) == 1e-3);
  for (const char* wrong : {"nan", "inf", "1.5", "x", ""}) CHECK_FALSE(parse_number<double>(wrong, 0.0, 1.0));
}

TEST_CASE("booleans are the two words and nothing else", "[config]") {
  CHECK(*parse_boolean("true"));
  CHECK_FALSE(*parse_boolean("false"));
  for (const char* wrong : {"1", "yes", "True", ""}) CHECK_FALSE(parse_boolean(wrong));
}

TEST_CASE("a list survives printing and parsing", "[config]") {
  CHECK(parse_list(" a, b ,,c ") == List{"a", "b", "c"});
  CHECK(parse_list("").empty());
  for (const List& list : {List{}, List{"one"}, List{"tcp://10.0.0.1:1", "ipc:///run/x"}})
    CHECK(parse_list(print_list(list)) == list);
}
