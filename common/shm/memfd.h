// Sealed shared memory between the agent and one process. Agent side.
#pragma once

#include <cstddef>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace orrery::shm {

enum class PeerAccess {
  kReadWrite,  // sealed against resizing
  kReadOnly,   // the same, and no mapping made after this one can be writable
};

// A memfd mapped read-write in this process. The descriptor is what the peer gets. Unmapped and closed by the
// destructor.
class SharedMemory {
 public:
  SharedMemory() = default;
  // `bytes` > 0. Errors: kSystem (memfd_create, ftruncate, mmap or a seal was refused); nothing is left behind.
  static Result<SharedMemory> create(const char* name, size_t bytes, PeerAccess access);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  int fd() const { return fd_.get(); }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  UniqueFd fd_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace orrery::shm
