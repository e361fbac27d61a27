#include "tools/lab/hostnccl/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace orrery::hostnccl {

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 31 ? 255u : exponent + 112u;
  const uint32_t wide = sign | (wide_exponent << 23) | (mantissa << 13);
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or more: infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, in units of 2^-24
    float absolute;
    std::memcpy(&absolute, &magnitude, sizeof absolute);
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(absolute * 0x1p24f)));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float bfloat16_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t float_to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

namespace {

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// Arithmetic is done in `Work`: float for the 16-bit types, the unsigned twin for signed integers (whose overflow
// wraps, as on a GPU).
template <typename T>
struct Element {
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
template <>
struct Element<Half> {
  static float load(Half value) { return half_to_float(value.bits); }
  static Half store(float value) { return Half{float_to_half(value)}; }
};
template <>
struct Element<Bfloat16> {
  static float load(Bfloat16 value) { return bfloat16_to_float(value.bits); }
  static Bfloat16 store(float value) { return Bfloat16{float_to_bfloat16(value)}; }
};

template <typename W>
W add(W a, W b) {
  if constexpr (std::is_integral_v<W>) {
    using U = std::make_unsigned_t<W>;
    return static_cast<W>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
template <typename W>
W multiply(W a, W b) {
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename T, typename F>
void transform(void* out, const void* a, const void* b, size_t count, F function) {
  auto* result = static_cast<T*>(out);
  const auto* left = static_cast<const T*>(a);
  const auto* right = static_cast<const T*>(b);
  for (size_t i = 0; i < count; ++i) {
    result[i] = Element<T>::store(function(Element<T>::load(left[i]), Element<T>::load(right[i])));
  }
}

template <typename T>
auto scalar_of(const Reduction& reduction) {
  T scalar;
  std::memcpy(&scalar, &reduction.scalar_bits, sizeof scalar);
  return Element<T>::load(scalar);
}

template <typename T>
void combine_typed(const Reduction& reduction, void* out, const void* partial, const void* input, size_t count) {
  using W = decltype(Element<T>::load(T{}));
  if (reduction.scales_input) {
    const W scalar = scalar_of<T>(reduction);
    transform<T>(out, partial, input, count, [scalar](W a, W b) { return add(a, multiply(b, scalar)); });
    return;
  }
  switch (reduction.combine) {
    case ncclProd:
      return transform<T>(out, partial, input, count, [](W a, W b) { return multiply(a, b); });
    case ncclMax:
      return transform<T>(out, partial, input, count, [](W a, W b) { return a < b ? b : a; });
    case ncclMin:
      return transform<T>(out, partial, input, count, [](W a, W b) { return b < a ? b : a; });
    default:
      return transform<T>(out, partial, input, count, [](W a, W b) { return add(a, b); });
  }
}

template <typename T>
void load_typed(const Reduction& reduction, void* out, const void* input, size_t count) {
  using W = decltype(Element<T>::load(T{}));
  const W scalar = scalar_of<T>(reduction);
  transform<T>(out, input, input, count, [scalar](W a, W) { return multiply(a, scalar); });
}

template <typename T>
void finish_typed(const Reduction& reduction, void* values, size_t count) {
  if constexpr (std::is_integral_v<T>) {
    const auto divisor = static_cast<int64_t>(reduction.divisor);
    auto* elements = static_cast<T*>(values);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (std::is_signed_v<T>) {
        elements[i] = static_cast<T>(static_cast<int64_t>(elements[i]) / divisor);
      } else {
        elements[i] = static_cast<T>(static_cast<uint64_t>(elements[i]) / static_cast<uint64_t>(divisor));
      }
    }
  }
}

template <typename F>
void with_type(ncclDataType_t type, F function) {
  switch (type) {
    case ncclInt8:
      return function(int8_t{});
    case ncclUint8:
      return function(uint8_t{});
    case ncclInt32:
      return function(int32_t{});
    case ncclUint32:
      return function(uint32_t{});
    case ncclInt64:
      return function(int64_t{});
    case ncclUint64:
      return function(uint64_t{});
    case ncclFloat16:
      return function(Half{});
    case ncclFloat32:
      return function(float{});
    case ncclFloat64:
      return function(double{});
    case ncclBfloat16:
      return function(Bfloat16{});
    default:
      return;
  }
}

template <typename V>
void set_scalar(Reduction& reduction, V value) {
  static_assert(sizeof value <= sizeof reduction.scalar_bits);
  std::memcpy(&reduction.scalar_bits, &value, sizeof value);
}

}  // namespace

size_t element_bytes(ncclDataType_t type) {
  size_t bytes = 0;
  with_type(type, [&](auto element) { bytes = sizeof element; });
  return bytes;
}

Reduction make_reduction(ncclRedOp_t op, ncclDataType_t type, int nranks) {
  Reduction reduction{.type = type, .combine = op};
  if (op != ncclAvg) return reduction;
  reduction.combine = ncclSum;
  const float share = 1.0f / static_cast<float>(nranks);
  switch (type) {
    case ncclFloat16:
      set_scalar(reduction, float_to_half(share));
      break;
    case ncclBfloat16:
      set_scalar(reduction, float_to_bfloat16(share));
      break;
    case ncclFloat32:
      set_scalar(reduction, share);
      break;
    case ncclFloat64:
      set_scalar(reduction, 1.0 / nranks);
      break;
    default:
      reduction.divisor = nranks;
      return reduction;
  }
  reduction.scales_input = true;
  return reduction;
}

Reduction make_premultiplied_sum(ncclDataType_t type, const void* scalar) {
  Reduction reduction{.type = type, .combine = ncclSum, .scales_input = true};
  std::memcpy(&reduction.scalar_bits, scalar, element_bytes(type));
  return reduction;
}

void load_input(const Reduction& reduction, void* out, const void* input, size_t count) {
  if (!reduction.scales_input) {
    if (out != input && count > 0) std::memmove(out, input, count * element_bytes(reduction.type));
    return;
  }
  with_type(reduction.type, [&](auto element) { load_typed<decltype(element)>(reduction, out, input, count); });
}

void combine(const Reduction& reduction, void* out, const void* partial, const void* input, size_t count) {
  with_type(reduction.type,
            [&](auto element) { combine_typed<decltype(element)>(reduction, out, partial, input, count); });
}

void finish(const Reduction& reduction, void* values, size_t count) {
  if (!reduction.has_finish()) return;
  with_type(reduction.type, [&](auto element) { finish_typed<decltype(element)>(reduction, values, count); });
}

}  // namespace orrery::hostnccl
