// The few BPF map operations orrery-switch needs, as Results. Descriptors stay the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace orrery::drivers::ebpf {

class BpfMap {
 public:
  BpfMap() = default;
  BpfMap(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  int fd() const { return fd_; }

  Status put(const void* key, const void* value) const;
  Status get(const void* key, void* value) const;
  // False when there was no such key.
  bool erase(const void* key) const;
  // False at the end. `from` null: the first key.
  bool next_key(const void* from, void* key) const;
  // The values of every possible CPU. Value must be a multiple of 8 bytes.
  template <typename Value>
  Result<std::vector<Value>> get_per_cpu(uint32_t key) const {
    static_assert(sizeof(Value) % 8 == 0);
    std::vector<Value> values(possible_cpus());
    ORRERY_TRY(get(&key, values.data()));
    return values;
  }

 private:
  static size_t possible_cpus();
  int fd_ = -1;
  std::string name_;
};

// A memory-mapped array map (BPF_F_MMAPABLE).
class MappedArray {
 public:
  MappedArray() = default;
  static Result<MappedArray> map(int fd, size_t bytes, const std::string& name);
  MappedArray(MappedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedArray& operator=(MappedArray&& other) noexcept;
  ~MappedArray();
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace orrery::drivers::ebpf
