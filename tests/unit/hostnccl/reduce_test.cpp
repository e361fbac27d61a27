#include "tools/lab/hostnccl/reduce.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace orrery::hostnccl {
namespace {

// The value of a small float format from its definition, without bit tricks shared with the code under test.
double decode(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

TEST_CASE("every finite half and bfloat16 survives the way to float and back") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & 0x7c00) != 0x7c00) {
      REQUIRE(half_to_float(half) == decode(half, 5, 10));
      REQUIRE(float_to_half(half_to_float(half)) == half);
    }
    if ((half & 0x7f80) != 0x7f80) {
      REQUIRE(bfloat16_to_float(half) == static_cast<float>(decode(half, 8, 7)));
      REQUIRE(float_to_bfloat16(bfloat16_to_float(half)) == half);
    }
  }
}

TEST_CASE("conversion to 16 bits picks the nearest value and the even one of two") {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = decode(bits, 5, 10);
    const double high = decode(static_cast<uint16_t>(bits + 1), 5, 10);
    const uint16_t even = bits % 2 == 0 ? bits : static_cast<uint16_t>(bits + 1);
    REQUIRE(float_to_half(static_cast<float>((low + high) / 2)) == even);
    REQUIRE(float_to_half(static_cast<float>(low * 0.75 + high * 0.25)) == bits);
  }
  REQUIRE(float_to_half(65519.0f) == 0x7bff);
  REQUIRE(float_to_half(65520.0f) == 0x7c00);
  REQUIRE(float_to_bfloat16(1.0f + 0x1p-8f) == 0x3f80);
  REQUIRE(float_to_bfloat16(1.0f + 0x1.8p-7f) == 0x3f82);
}

TEST_CASE("infinities stay infinite and NaN stays NaN in 16 bits") {
  const float infinity = std::numeric_limits<float>::infinity();
  REQUIRE(half_to_float(float_to_half(-infinity)) == -infinity);
  REQUIRE(bfloat16_to_float(float_to_bfloat16(infinity)) == infinity);
  REQUIRE(std::isnan(half_to_float(float_to_half(std::nanf("")))));
  REQUIRE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::nanf("")))));
}

TEST_CASE("signed integers wrap around instead of overflowing") {
  const Reduction sum = make_reduction(ncclSum, ncclInt32, 2);
  const int32_t a = std::numeric_limits<int32_t>::max();
  const int32_t b = 1;
  int32_t out = 0;
  combine(sum, &out, &a, &b, 1);
  REQUIRE(out == std::numeric_limits<int32_t>::min());
}

TEST_CASE("the average of integers is the truncated quotient of the sum") {
  const Reduction average = make_reduction(ncclAvg, ncclInt8, 3);
  REQUIRE(average.has_finish());
  std::vector<int8_t> sums = {10, -10, 2, -2, 127};
  finish(average, sums.data(), sums.size());
  REQUIRE(sums == std::vector<int8_t>{3, -3, 0, 0, 42});
}

TEST_CASE("the average of halves does not overflow where their sum would") {
  const Reduction average = make_reduction(ncclAvg, ncclFloat16, 2);
  const uint16_t big = float_to_half(60000.0f);
  uint16_t out = 0;
  load_input(average, &out, &big, 1);
  combine(average, &out, &out, &big, 1);
  finish(average, &out, 1);
  REQUIRE(half_to_float(out) == 60000.0f);
}

TEST_CASE("a value outside the data types has no size") {
  REQUIRE(element_bytes(static_cast<ncclDataType_t>(10)) == 0);
  REQUIRE(element_bytes(ncclBfloat16) == 2);
  REQUIRE(element_bytes(ncclUint64) == 8);
}

}  // namespace
}  // namespace orrery::hostnccl
