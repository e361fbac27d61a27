#include "tools/lab/hostnccl/verbs_memory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace orrery::hostnccl {
namespace {

constexpr uintptr_t kPage = 4096;

int access_of(VerbsMemory::Use use) {
  if (use == VerbsMemory::Use::kRead) return 0;
  return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
}

}  // namespace

VerbsMemory::~VerbsMemory() {
  revoke();
}

Result<VerbsMemory::Region*> VerbsMemory::acquire(const void* data, size_t bytes, Use use) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(data);
  for (auto& region : regions_) {
    if (!region.handle) continue;
    const bool allows = region.use == use || region.use == Use::kReadWrite;
    if (!allows || first < region.begin || first + bytes > region.end) continue;
    ++region.users;
    return &region;
  }
  Region region{.begin = first / kPage * kPage, .end = (first + bytes + kPage - 1) / kPage * kPage, .use = use};
  void* address = reinterpret_cast<void*>(region.begin);
  const size_t length = region.end - region.begin;
  if (relaxed_ordering_ && device_.verbs->reg_mr_iova2) {
    const unsigned access = static_cast<unsigned>(access_of(use)) | IBV_ACCESS_RELAXED_ORDERING;
    region.handle = device_.verbs->reg_mr_iova2(device_.domain, address, length, region.begin, access);
  } else {
    region.handle = device_.verbs->reg_mr(device_.domain, address, length, access_of(use));
  }
  if (!region.handle) {
    const int reason = errno;
    return system_error(device_.name + ": cannot register " + std::to_string(length) + " bytes" +
                            (reason == ENOMEM ? " (raise the limit of locked memory: ulimit -l)" : ""),
                        reason);
  }
  region.users = 1;
  regions_.push_back(region);
  return &regions_.back();
}

void VerbsMemory::release(Region* region) {
  if (--region->users > 0) return;
  if (region->handle) device_.verbs->dereg_mr(region->handle);
  regions_.remove_if([region](const Region& entry) { return &entry == region; });
}

void VerbsMemory::revoke() {
  for (auto& region : regions_) {
    if (region.handle) device_.verbs->dereg_mr(std::exchange(region.handle, nullptr));
  }
}

Result<VerbsBlock> VerbsBlock::allocate(VerbsMemory& memory, size_t bytes) {
  VerbsBlock block;
  block.data_ = static_cast<uint8_t*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
  if (!block.data_) return Error{ErrorCode::kExhausted, "out of memory for a connection's buffers"};
  std::memset(block.data_, 0, bytes);
  ORRERY_ASSIGN(block.region_, memory.acquire(block.data_, bytes, VerbsMemory::Use::kReadWrite));
  block.memory_ = &memory;
  return block;
}

VerbsBlock& VerbsBlock::operator=(VerbsBlock&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(region_, other.region_);
  std::swap(data_, other.data_);
  return *this;
}

VerbsBlock::~VerbsBlock() {
  if (region_) memory_->release(region_);
  std::free(data_);
}

}  // namespace orrery::hostnccl
