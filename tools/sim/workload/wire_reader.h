// Reads the protobuf wire format: fields of one message, one after the other. No copies; every length is checked
// against the bytes that are there.
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery::sim {

class WireReader {
 public:
  // `offset`: where `bytes` begin in the file, for messages.
  explicit WireReader(std::string_view bytes, uint64_t offset = 0) : bytes_(bytes), offset_(offset) {}

  bool at_end() const { return position_ == bytes_.size(); }
  uint64_t offset() const { return offset_ + position_; }

  // Each returns false at bytes that are no such thing; the reader is of no use then.
  bool varint(uint64_t& value) {
    value = 0;
    for (uint32_t shift = 0; shift < 70 && position_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[position_++]);
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }
  // A length and as many bytes.
  bool block(std::string_view& bytes) {
    uint64_t length = 0;
    if (!varint(length) || length > bytes_.size() - position_) return false;
    bytes = bytes_.substr(position_, length);
    position_ += length;
    return true;
  }

  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;  // varint and fixed
    bool is_block = false;
    std::string_view bytes;  // blocks
    uint64_t offset = 0;     // of the bytes, else of the field
  };
  bool field(Field& field) {
    uint64_t tag = 0;
    field.offset = offset();
    field.is_block = false;
    if (!varint(tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return false;
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        return varint(field.value);
      case 1:
        return fixed(8, field.value);
      case 2:
        field.is_block = true;
        if (!block(field.bytes)) return false;
        field.offset = offset() - field.bytes.size();
        return true;
      case 5:
        return fixed(4, field.value);
      default:
        return false;  // groups are not of this format's version
    }
  }

 private:
  bool fixed(size_t size, uint64_t& value) {
    if (bytes_.size() - position_ < size) return false;
    value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(bytes_[position_ + i])} << (8 * i);
    position_ += size;
    return true;
  }

  std::string_view bytes_;
  size_t position_ = 0;
  uint64_t offset_;
};

}  // namespace orrery::sim
