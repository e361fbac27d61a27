// Work requests of one send queue that wait for their time, deep-copied into memory of fixed size.
//
// The memory is one static pool for the process, handed out in segments of kSegmentBytes and untouched (so not
// resident) until something is held back. Nothing here locks a queue: its owner does. The pool itself is lock-free.
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

namespace orrery::preload {

inline constexpr uint32_t kSegmentBytes = 8192;
inline constexpr uint32_t kMaxSegments = 256;  // 2 MiB

// No more than `bytes` of the pool are used from now on; what is over it already stays until it is posted.
void limit_send_fifos(size_t bytes);
// Segments in use, for tests.
uint32_t segments_in_use();
// In a forked child: the copies are of requests that the parent posts.
void forget_send_fifos_of_parent();

class SendFifo {
 public:
  // What can be copied: everything but requests that name other objects of the application (memory windows, address
  // handles, headers).
  static bool can_hold(const ibv_send_wr& wr);

  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  uint64_t first_due_ns() const { return count_ != 0 ? first_->due_ns : UINT64_MAX; }
  uint64_t last_due_ns() const { return count_ != 0 ? last_->due_ns : 0; }

  // Copies one request with its scatter list, and its data when IBV_SEND_INLINE is set. `due_ns` is not before that of
  // the last one. False when there is no room: nothing has changed then. Precondition: can_hold(wr).
  bool push(const ibv_send_wr& wr, uint64_t due_ns);

  // The first requests that are due by `until`, at most `limit`, chained as for post_send; null when none is. They stay
  // in the queue, and valid until popped.
  ibv_send_wr* chain_due(uint64_t until, uint32_t limit, uint32_t* count);
  // How many of the first `limit` are due by `now`.
  uint32_t due_count(uint64_t now, uint32_t limit) const;
  // Removes the first `count`.
  void pop(uint32_t count);
  void clear() { pop(count_); }

 private:
  struct Record {
    uint64_t due_ns;
    Record* next;
    uint32_t segment;
    uint32_t reserved;
    ibv_send_wr wr;
    // ibv_sge[num_sge], then the inline data
  };
  static size_t bytes_of(const ibv_send_wr& wr);
  Record* make_room(size_t bytes);

  Record* first_ = nullptr;
  Record* last_ = nullptr;
  uint32_t count_ = 0;
  uint32_t tail_segment_ = 0;  // index + 1; 0: none
  uint32_t tail_used_ = 0;
};

}  // namespace orrery::preload
