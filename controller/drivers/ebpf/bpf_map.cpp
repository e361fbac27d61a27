#include "controller/drivers/ebpf/bpf_map.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace orrery::drivers::ebpf {

Status BpfMap::put(const void* key, const void* value) const {
  const int rc = bpf_map_update_elem(fd_, key, value, BPF_ANY);
  if (rc == 0) return {};
  if (rc == -E2BIG || rc == -ENOSPC) return Error{ErrorCode::kExhausted, fmt::format("BPF map {} is full", name_)};
  return system_error(fmt::format("cannot write BPF map {}", name_), -rc);
}

Status BpfMap::get(const void* key, void* value) const {
  const int rc = bpf_map_lookup_elem(fd_, key, value);
  if (rc == 0) return {};
  if (rc == -ENOENT) return Error{ErrorCode::kNotFound, fmt::format("BPF map {} has no such key", name_)};
  return system_error(fmt::format("cannot read BPF map {}", name_), -rc);
}

bool BpfMap::erase(const void* key) const {
  return bpf_map_delete_elem(fd_, key) == 0;
}

bool BpfMap::next_key(const void* from, void* key) const {
  return bpf_map_get_next_key(fd_, from, key) == 0;
}

size_t BpfMap::possible_cpus() {
  const int count = libbpf_num_possible_cpus();
  return count > 0 ? static_cast<size_t>(count) : 1;
}

Result<MappedArray> MappedArray::map(int fd, size_t bytes, const std::string& name) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  MappedArray array;
  array.bytes_ = (bytes + page - 1) / page * page;
  void* data = mmap(nullptr, array.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return system_error(fmt::format("cannot map BPF map {} (needs Linux 5.5 or newer)", name), errno);
  array.data_ = data;
  return array;
}

MappedArray& MappedArray::operator=(MappedArray&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedArray::~MappedArray() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace orrery::drivers::ebpf
