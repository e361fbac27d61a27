// Registered memory of one communicator. Proxy thread only.
//
// A registration is shared by everything that uses the same memory and lasts as long as somebody does: a cache that
// kept it longer would send from, or write to, pages that the user has freed and mapped anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "tools/lab/hostnccl/verbs_device.h"

namespace orrery::hostnccl {

class VerbsMemory {
 public:
  // kRead: the device only sends from it, so it may be read-only to the process.
  enum class Use { kRead, kReadWrite };

  struct Region {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    Use use = Use::kRead;
    size_t users = 0;
    ibv_mr* handle = nullptr;  // null once revoked
  };

  VerbsMemory(const VerbsPort& port, bool relaxed_ordering)
      : device_(*port.device), relaxed_ordering_(relaxed_ordering) {}
  ~VerbsMemory();
  VerbsMemory(const VerbsMemory&) = delete;
  VerbsMemory& operator=(const VerbsMemory&) = delete;

  // Whole pages around [data, data + bytes), bytes > 0. kSystem: refused by the kernel.
  Result<Region*> acquire(const void* data, size_t bytes, Use use);
  void release(Region* region);
  // Takes all registrations back at once: the device can reach none of the memory afterwards.
  void revoke();

 private:
  const VerbsDevice& device_;
  const bool relaxed_ordering_;
  std::list<Region> regions_;  // few: those of one operation
};

// Memory of a connection's own, registered for its life.
class VerbsBlock {
 public:
  static Result<VerbsBlock> allocate(VerbsMemory& memory, size_t bytes);
  VerbsBlock() = default;
  VerbsBlock(VerbsBlock&& other) noexcept { *this = std::move(other); }
  VerbsBlock& operator=(VerbsBlock&& other) noexcept;
  ~VerbsBlock();

  uint8_t* data() const { return data_; }
  uint32_t key() const { return region_->handle->lkey; }
  uint32_t remote_key() const { return region_->handle->rkey; }

 private:
  VerbsMemory* memory_ = nullptr;
  VerbsMemory::Region* region_ = nullptr;
  uint8_t* data_ = nullptr;
};

}  // namespace orrery::hostnccl
