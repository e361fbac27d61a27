// Where the buffers live. With hostnccl: host memory, and hostncclStreamSynchronize() waits for completion. With
// NVIDIA's NCCL: device memory through libcudart, loaded at run time, so that orrery-bench needs no CUDA to build or to
// run in the lab.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "tools/lab/hostnccl/include/nccl.h"

namespace orrery::bench {

// `host` is what the program reads and writes, `handed` what NCCL gets; the same memory in host mode.
struct Buffer {
  void* host = nullptr;
  void* handed = nullptr;
  size_t bytes = 0;
};

class Memory {
 public:
  // kUnavailable: the loaded library has no host extension and there is no usable libcudart.
  static Result<std::unique_ptr<Memory>> open(int local_rank);
  virtual ~Memory() = default;

  virtual Result<Buffer> allocate(size_t bytes) = 0;
  virtual void release(Buffer& buffer) = 0;
  virtual Status upload(const Buffer& buffer) = 0;
  virtual Status download(const Buffer& buffer) = 0;
  virtual cudaStream_t stream() const = 0;
  virtual Status synchronize() = 0;
  virtual const char* name() const = 0;
};

// "what: NCCL's text for it (the library's last error)".
Error nccl_error(const std::string& what, ncclResult_t result);

}  // namespace orrery::bench
