#include "tools/lab/bench/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/lab/hostnccl/reduce.h"

namespace orrery::bench {
namespace {

size_t mix(size_t index) {
  size_t value = (index + 1) * 0x9e3779b97f4a7c15u;
  value ^= value >> 29;
  value *= 0xbf58476d1ce4e5b9u;
  return value ^ (value >> 32);
}

double base_of(size_t index) {
  return static_cast<double>(mix(index) % 8);
}
int chosen_rank(size_t index, int nranks) {
  return static_cast<int>(mix(index ^ 0x5555u) % static_cast<size_t>(nranks));
}
double share_of(int rank) {
  return rank % 16;
}

template <typename T>
void store(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
}
template <typename T>
T load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

void encode(ncclDataType_t type, double value, void* out) {
  const auto integer = static_cast<int64_t>(value);
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return store(out, static_cast<uint8_t>(integer));
    case ncclInt32:
    case ncclUint32:
      return store(out, static_cast<uint32_t>(integer));
    case ncclInt64:
    case ncclUint64:
      return store(out, static_cast<uint64_t>(integer));
    case ncclFloat16:
      return store(out, hostnccl::float_to_half(static_cast<float>(value)));
    case ncclBfloat16:
      return store(out, hostnccl::float_to_bfloat16(static_cast<float>(value)));
    case ncclFloat32:
      return store(out, static_cast<float>(value));
    default:
      return store(out, value);
  }
}

double decode(ncclDataType_t type, const void* data) {
  switch (type) {
    case ncclInt8:
      return load<int8_t>(data);
    case ncclUint8:
      return load<uint8_t>(data);
    case ncclInt32:
      return load<int32_t>(data);
    case ncclUint32:
      return load<uint32_t>(data);
    case ncclInt64:
      return static_cast<double>(load<int64_t>(data));
    case ncclUint64:
      return static_cast<double>(load<uint64_t>(data));
    case ncclFloat16:
      return hostnccl::half_to_float(load<uint16_t>(data));
    case ncclBfloat16:
      return hostnccl::bfloat16_to_float(load<uint16_t>(data));
    case ncclFloat32:
      return load<float>(data);
    default:
      return load<double>(data);
  }
}

bool is_integer(ncclDataType_t type) {
  return type <= ncclUint64;
}

// A sum of small values wraps in 8 bits; the average of the wrapped sum is what an integer library yields.
double wrap(ncclDataType_t type, double value) {
  unsigned char bytes[8];
  encode(type, value, bytes);
  return decode(type, bytes);
}

}  // namespace

Pattern::Pattern(ncclDataType_t type, const std::function<double(size_t)>& value)
    : type_(type), element_bytes_(hostnccl::element_bytes(type)), table_(2 * kPeriod * element_bytes_) {
  for (size_t i = 0; i < kPeriod; ++i) encode(type, value(i), &table_[i * element_bytes_]);
  std::copy_n(table_.begin(), kPeriod * element_bytes_,
              table_.begin() + static_cast<std::ptrdiff_t>(kPeriod * element_bytes_));
}

template <typename F>
void Pattern::each_run(size_t count, size_t phase, F function) const {
  const unsigned char* start = &table_[phase % kPeriod * element_bytes_];
  for (size_t done = 0; done < count; done += kPeriod) function(done, std::min(kPeriod, count - done), start);
}

void Pattern::fill(void* out, size_t count, size_t phase) const {
  each_run(count, phase, [&](size_t first, size_t elements, const unsigned char* source) {
    std::memcpy(static_cast<unsigned char*>(out) + first * element_bytes_, source, elements * element_bytes_);
  });
}

size_t Pattern::count_wrong(const void* data, size_t count, size_t phase, double tolerance) const {
  size_t wrong = 0;
  each_run(count, phase, [&](size_t first, size_t elements, const unsigned char* expected) {
    const auto* got = static_cast<const unsigned char*>(data) + first * element_bytes_;
    if (std::memcmp(got, expected, elements * element_bytes_) == 0) return;
    for (size_t i = 0; i < elements; ++i) {
      const double a = decode(type_, got + i * element_bytes_);
      const double b = decode(type_, expected + i * element_bytes_);
      if (!(std::abs(a - b) <= tolerance * std::abs(b))) ++wrong;
    }
  });
  return wrong;
}

double reduction_input(ncclRedOp_t op, size_t index, int rank, int nranks) {
  const bool chosen = rank == chosen_rank(index, nranks);
  switch (op) {
    case ncclProd:
      return chosen ? 1 + base_of(index) : 1;
    case ncclMax:
      return base_of(index) + (chosen ? 8 : rank % 8);
    case ncclMin:
      return base_of(index) + (chosen ? 0 : 1 + rank % 8);
    default:
      return base_of(index) + share_of(rank);
  }
}

double reduction_result(ncclRedOp_t op, ncclDataType_t type, size_t index, int nranks) {
  switch (op) {
    case ncclProd:
      return 1 + base_of(index);
    case ncclMax:
      return base_of(index) + 8;
    case ncclMin:
      return base_of(index);
    default:
      break;
  }
  double sum = nranks * base_of(index);
  for (int rank = 0; rank < nranks; ++rank) sum += share_of(rank);
  if (op == ncclSum) return sum;
  return is_integer(type) ? std::trunc(wrap(type, sum) / nranks) : sum / nranks;
}

double moved_value(size_t index, int rank) {
  return base_of(index) + 8 * (rank % 15);
}

double tolerance_of(ncclDataType_t type, int nranks) {
  switch (type) {
    case ncclFloat16:
      return nranks * 0x1p-10;
    case ncclBfloat16:
      return nranks * 0x1p-7;
    case ncclFloat32:
      return nranks * 0x1p-23;
    case ncclFloat64:
      return nranks * 0x1p-52;
    default:
      return 0;
  }
}

}  // namespace orrery::bench
