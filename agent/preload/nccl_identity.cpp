#include "agent/preload/nccl_identity.h"

#include <string.h>

namespace orrery::preload {
namespace {

// A hash of several values, each mixed in with its size, eight bytes at a time.
class NcclHash {
 public:
  template <typename Value>
  NcclHash& add(const Value& value) {
    char bytes[sizeof(Value)];
    memcpy(bytes, &value, sizeof(bytes));
    a_ ^= sizeof(bytes);
    for (size_t at = 0; at < sizeof(bytes); at += 8) {
      uint64_t word = 0;
      memcpy(&word, bytes + at, sizeof(bytes) - at < 8 ? sizeof(bytes) - at : 8);
      mix();
      a_ += word;
    }
    return *this;
  }

  uint64_t value() const {
    uint64_t hash = (a_ ^ (a_ >> 31)) * 0xbac3bd562846de6bull + b_;
    hash ^= hash >> 32;
    return hash * 0x995a187a14e7b445ull;
  }

 private:
  void mix() {
    a_ += b_;
    b_ ^= a_;
    a_ = (a_ ^ (a_ >> 31)) * 0x9de62bbc8cef3ce3ull;
    b_ = (b_ ^ (b_ >> 32)) * 0x485cd6311b599e79ull;
  }

  uint64_t a_ = 1, b_ = 1;
};

}  // namespace

uint64_t nccl_magic_of(const ncclUniqueId& id) {
  uint64_t magic;
  memcpy(&magic, id.internal, sizeof(magic));
  return magic;
}

NcclIdentity nccl_identity_of(const ncclUniqueId& id) {
  return {nccl_magic_of(id), NcclHash().add(id).value()};
}

NcclIdentity nccl_identity_of_child(const NcclIdentity& parent, uint32_t number, int colour) {
  if (parent.magic == 0) return {0, 0};
  const uint64_t hash = NcclHash().add(parent.hash).add(number).add(colour).value();
  return {hash, hash};
}

uint64_t nccl_grow_magic(const NcclIdentity& parent, uint32_t number) {
  return parent.magic != 0 ? NcclHash().add(parent.magic).add(uint64_t{number}).value() : 0;
}

NcclIdentity nccl_identity_of_grown(uint64_t grow_magic, int nranks) {
  if (grow_magic == 0) return {0, 0};
  return {grow_magic, NcclHash().add(grow_magic).add(static_cast<uint64_t>(nranks)).value()};
}

}  // namespace orrery::preload
