#include "tests/integration/nccl/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace orrery::test {
namespace {

template <typename T>
void put(std::vector<unsigned char>& out, T value) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}
template <typename T>
T get(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof value, sizeof value);
  return value;
}

// A float format with `exponent_bits`, `mantissa_bits`; whole and simple values only (no rounding, no subnormals
// written).
uint16_t encode_small_float(double value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // [0.5, 1)
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<uint16_t>(std::ldexp(fraction * 2 - 1, mantissa_bits));
  return static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | ((exponent - 1 + bias) << mantissa_bits) | mantissa);
}

double decode_small_float(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

double get_element(ncclDataType_t type, const void* data, size_t i) {
  switch (type) {
    case ncclInt8:
      return get<int8_t>(data, i);
    case ncclUint8:
      return get<uint8_t>(data, i);
    case ncclInt32:
      return get<int32_t>(data, i);
    case ncclUint32:
      return get<uint32_t>(data, i);
    case ncclInt64:
      return static_cast<double>(get<int64_t>(data, i));
    case ncclUint64:
      return static_cast<double>(get<uint64_t>(data, i));
    case ncclFloat16:
      return decode_small_float(get<uint16_t>(data, i), 5, 10);
    case ncclBfloat16:
      return decode_small_float(get<uint16_t>(data, i), 8, 7);
    case ncclFloat32:
      return get<float>(data, i);
    default:
      return get<double>(data, i);
  }
}

double tolerance(ncclDataType_t type, int nranks) {
  switch (type) {
    case ncclFloat16:
      return (nranks + 1) * 0x1p-10;
    case ncclBfloat16:
      return (nranks + 1) * 0x1p-7;
    case ncclFloat32:
      return (nranks + 1) * 0x1p-23;
    case ncclFloat64:
      return (nranks + 1) * 0x1p-52;
    default:
      return 0;
  }
}

}  // namespace

size_t bytes_of(ncclDataType_t type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kBytes[type];
}

bool is_integer(ncclDataType_t type) {
  return type <= ncclUint64;
}

double input_value(ncclDataType_t type, int rank, size_t index) {
  const auto value = static_cast<double>((index * 7 + index / 13 + static_cast<size_t>(rank) * 5) % 3 + 1);
  const bool is_signed = type != ncclUint8 && type != ncclUint32 && type != ncclUint64;
  return is_signed && (index + static_cast<size_t>(rank)) % 4 == 0 ? -value : value;
}

double reduced_value(ncclDataType_t type, ncclRedOp_t op, int nranks, size_t index, double scale) {
  double result = input_value(type, 0, index) * scale;
  for (int rank = 1; rank < nranks; ++rank) {
    const double value = input_value(type, rank, index) * scale;
    switch (op) {
      case ncclProd:
        result *= value;
        break;
      case ncclMax:
        result = std::max(result, value);
        break;
      case ncclMin:
        result = std::min(result, value);
        break;
      default:
        result += value;
        break;
    }
  }
  if (op == ncclAvg) result = is_integer(type) ? std::trunc(result / nranks) : result / nranks;
  // A product of eight values up to 3 leaves 8 bits: it wraps.
  if (type == ncclInt8) return static_cast<int8_t>(static_cast<int64_t>(result));
  if (type == ncclUint8) return static_cast<uint8_t>(static_cast<int64_t>(result));
  return result;
}

std::vector<unsigned char> encode(ncclDataType_t type, const std::vector<double>& values) {
  std::vector<unsigned char> out;
  for (const double value : values) {
    const auto whole = static_cast<int64_t>(value);
    switch (type) {
      case ncclInt8:
      case ncclUint8:
        put(out, static_cast<uint8_t>(whole));
        break;
      case ncclInt32:
      case ncclUint32:
        put(out, static_cast<uint32_t>(whole));
        break;
      case ncclInt64:
      case ncclUint64:
        put(out, static_cast<uint64_t>(whole));
        break;
      case ncclFloat16:
        put(out, encode_small_float(value, 5, 10));
        break;
      case ncclBfloat16:
        put(out, encode_small_float(value, 8, 7));
        break;
      case ncclFloat32:
        put(out, static_cast<float>(value));
        break;
      default:
        put(out, value);
        break;
    }
  }
  return out;
}

std::string first_difference(ncclDataType_t type, const void* data, const std::vector<double>& expected, int nranks) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double got = get_element(type, data, i);
    // Near zero, positive and negative inputs cancel: the error is relative to the inputs then, which are at least
    // 1/nranks.
    const double bound = tolerance(type, nranks) * std::max({std::abs(expected[i]), is_integer(type) ? 0.0 : 3.0});
    if (std::abs(got - expected[i]) <= bound) continue;
    return "element " + std::to_string(i) + " of " + std::to_string(expected.size()) + " is " + std::to_string(got) +
           ", not " + std::to_string(expected[i]);
  }
  return {};
}

}  // namespace orrery::test
