#include "common/shm/memfd.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace orrery::shm {

Result<SharedMemory> SharedMemory::create(const char* name, size_t bytes, PeerAccess access) {
  SharedMemory memory;
  memory.fd_ = UniqueFd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd_) return system_error("memfd_create for shared memory", errno);
  if (ftruncate(memory.fd_.get(), static_cast<off_t>(bytes)) != 0)
    return system_error("sizing shared memory to " + std::to_string(bytes) + " bytes", errno);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd_.get(), 0);
  if (data == MAP_FAILED) return system_error("mapping " + std::to_string(bytes) + " bytes of shared memory", errno);
  memory.data_ = data;
  memory.bytes_ = bytes;
  int seals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (access == PeerAccess::kReadOnly) seals |= F_SEAL_FUTURE_WRITE;
  if (fcntl(memory.fd_.get(), F_ADD_SEALS, seals) != 0) return system_error("sealing shared memory", errno);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace orrery::shm
