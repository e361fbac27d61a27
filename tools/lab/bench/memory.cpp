#include "tools/lab/bench/memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace orrery::bench {
namespace {

using Synchronize = ncclResult_t (*)(cudaStream_t);

class HostMemory final : public Memory {
 public:
  explicit HostMemory(Synchronize function) : synchronize_(function) {}
  Result<Buffer> allocate(size_t bytes) override {
    void* data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
    if (!data) return Error{ErrorCode::kExhausted, "no memory for a buffer of " + std::to_string(bytes) + " bytes"};
    std::memset(data, 0xa5, bytes);
    return Buffer{data, data, bytes};
  }
  void release(Buffer& buffer) override { std::free(buffer.host); }
  Status upload(const Buffer&) override { return {}; }
  Status download(const Buffer&) override { return {}; }
  cudaStream_t stream() const override { return nullptr; }
  Status synchronize() override {
    const ncclResult_t result = synchronize_(nullptr);
    if (result != ncclSuccess) return nccl_error("waiting for completion", result);
    return {};
  }
  const char* name() const override { return "host"; }

 private:
  Synchronize synchronize_;
};

class CudaMemory final : public Memory {
 public:
  Status load(int device) {
    for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"}) {
      if (library_) break;
      library_ = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!library_) {
      return Error{
          ErrorCode::kUnavailable,
          "this libnccl.so.2 works on device memory and libcudart is not found: put it in LD_LIBRARY_PATH, or put "
          "hostnccl's libnccl.so.2 there"};
    }
    const bool complete = find(set_device_, "cudaSetDevice") && find(malloc_, "cudaMalloc") &&
                          find(free_, "cudaFree") && find(copy_, "cudaMemcpy") &&
                          find(create_stream_, "cudaStreamCreate") && find(synchronize_, "cudaStreamSynchronize") &&
                          find(error_text_, "cudaGetErrorString");
    if (!complete) return Error{ErrorCode::kUnavailable, "libcudart lacks a function that orrery-bench needs"};
    ORRERY_TRY(check("cudaSetDevice", set_device_(device)));
    return check("cudaStreamCreate", create_stream_(&stream_));
  }
  Result<Buffer> allocate(size_t bytes) override {
    Buffer buffer{std::malloc(bytes + 1), nullptr, bytes};
    if (!buffer.host) return Error{ErrorCode::kExhausted, "no host memory"};
    ORRERY_TRY(check("cudaMalloc", malloc_(&buffer.handed, bytes + 1)));
    return buffer;
  }
  void release(Buffer& buffer) override {
    std::free(buffer.host);
    (void)free_(buffer.handed);
  }
  Status upload(const Buffer& buffer) override {
    return check("cudaMemcpy", copy_(buffer.handed, buffer.host, buffer.bytes, kHostToDevice));
  }
  Status download(const Buffer& buffer) override {
    return check("cudaMemcpy", copy_(buffer.host, buffer.handed, buffer.bytes, kDeviceToHost));
  }
  cudaStream_t stream() const override { return stream_; }
  Status synchronize() override { return check("cudaStreamSynchronize", synchronize_(stream_)); }
  const char* name() const override { return "cuda"; }

 private:
  static constexpr int kHostToDevice = 1;
  static constexpr int kDeviceToHost = 2;

  template <typename F>
  bool find(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    return function != nullptr;
  }
  Status check(const char* what, int code) {
    if (code == 0) return {};
    return Error{ErrorCode::kSystem, std::string(what) + ": " + error_text_(code)};
  }

  void* library_ = nullptr;  // stays loaded until the process ends
  cudaStream_t stream_ = nullptr;
  int (*set_device_)(int) = nullptr;
  int (*malloc_)(void**, size_t) = nullptr;
  int (*free_)(void*) = nullptr;
  int (*copy_)(void*, const void*, size_t, int) = nullptr;
  int (*create_stream_)(cudaStream_t*) = nullptr;
  int (*synchronize_)(cudaStream_t) = nullptr;
  const char* (*error_text_)(int) = nullptr;
};

}  // namespace

Result<std::unique_ptr<Memory>> Memory::open(int local_rank) {
  if (auto synchronize = reinterpret_cast<Synchronize>(::dlsym(RTLD_DEFAULT, "hostncclStreamSynchronize"))) {
    return std::unique_ptr<Memory>(std::make_unique<HostMemory>(synchronize));
  }
  auto memory = std::make_unique<CudaMemory>();
  ORRERY_TRY(memory->load(local_rank));
  return std::unique_ptr<Memory>(std::move(memory));
}

Error nccl_error(const std::string& what, ncclResult_t result) {
  std::string text = what + ": " + ncclGetErrorString(result);
  // Found at run time: NCCL before 2.14 lacks it.
  using LastError = const char* (*)(ncclComm_t);
  if (auto last = reinterpret_cast<LastError>(::dlsym(RTLD_DEFAULT, "ncclGetLastError"))) {
    if (const char* detail = last(nullptr); detail && *detail) text += std::string(" (") + detail + ")";
  }
  return Error{ErrorCode::kSystem, text};
}

}  // namespace orrery::bench
