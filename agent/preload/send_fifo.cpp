#include "agent/preload/send_fifo.h"

#include <string.h>

namespace orrery::preload {
namespace {

struct alignas(64) Segment {
  unsigned char bytes[kSegmentBytes];
};

Segment pool[kMaxSegments];
uint16_t records_in[kMaxSegments];  // of one queue each, whose owner writes them
uint64_t taken[kMaxSegments / 64];
uint32_t taken_count = 0;
uint32_t segment_limit = kMaxSegments;

// Index + 1, 0 when all are in use.
uint32_t take_segment() {
  const uint32_t limit = __atomic_load_n(&segment_limit, __ATOMIC_RELAXED);
  if (__atomic_fetch_add(&taken_count, 1u, __ATOMIC_RELAXED) < limit) {
    for (uint32_t word = 0; word < kMaxSegments / 64; ++word) {
      uint64_t seen = __atomic_load_n(&taken[word], __ATOMIC_RELAXED);
      while (~seen != 0) {
        const auto bit = static_cast<uint32_t>(__builtin_ctzll(~seen));
        if (__atomic_compare_exchange_n(&taken[word], &seen, seen | (uint64_t{1} << bit), true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
          return word * 64 + bit + 1;
      }
    }
  }
  __atomic_fetch_sub(&taken_count, 1u, __ATOMIC_RELAXED);
  return 0;
}

void give_back(uint32_t segment) {
  const uint32_t index = segment - 1;
  __atomic_fetch_and(&taken[index / 64], ~(uint64_t{1} << (index % 64)), __ATOMIC_RELEASE);
  __atomic_fetch_sub(&taken_count, 1u, __ATOMIC_RELAXED);
}

constexpr size_t round_up(size_t bytes) {
  return (bytes + 15) & ~size_t{15};
}

size_t inline_bytes(const ibv_send_wr& wr) {
  size_t bytes = 0;
  if (wr.send_flags & IBV_SEND_INLINE)
    for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  return bytes;
}

}  // namespace

void limit_send_fifos(size_t bytes) {
  const size_t segments = bytes / kSegmentBytes;
  __atomic_store_n(&segment_limit, static_cast<uint32_t>(segments < kMaxSegments ? segments : kMaxSegments),
                   __ATOMIC_RELAXED);
}

uint32_t segments_in_use() {
  return __atomic_load_n(&taken_count, __ATOMIC_RELAXED);
}

void forget_send_fifos_of_parent() {
  memset(taken, 0, sizeof(taken));
  taken_count = 0;
}

bool SendFifo::can_hold(const ibv_send_wr& wr) {
  if (wr.num_sge < 0) return false;
  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return true;
    default:
      return false;
  }
}

size_t SendFifo::bytes_of(const ibv_send_wr& wr) {
  return round_up(sizeof(Record) + static_cast<size_t>(wr.num_sge) * sizeof(ibv_sge) + inline_bytes(wr));
}

SendFifo::Record* SendFifo::make_room(size_t bytes) {
  if (bytes > kSegmentBytes) return nullptr;
  if (tail_segment_ == 0 || tail_used_ + bytes > kSegmentBytes) {
    const uint32_t fresh = take_segment();
    if (fresh == 0) return nullptr;
    tail_segment_ = fresh;
    tail_used_ = 0;
    records_in[fresh - 1] = 0;
  }
  auto* record = reinterpret_cast<Record*>(pool[tail_segment_ - 1].bytes + tail_used_);
  tail_used_ += static_cast<uint32_t>(bytes);
  ++records_in[tail_segment_ - 1];
  record->segment = tail_segment_;
  return record;
}

bool SendFifo::push(const ibv_send_wr& wr, uint64_t due_ns) {
  Record* record = make_room(bytes_of(wr));
  if (record == nullptr) return false;
  record->due_ns = due_ns;
  record->next = nullptr;
  record->wr = wr;
  record->wr.next = nullptr;
  auto* parts = reinterpret_cast<ibv_sge*>(record + 1);
  const auto part_count = static_cast<size_t>(wr.num_sge);
  record->wr.sg_list = parts;
  if (part_count != 0) memcpy(parts, wr.sg_list, part_count * sizeof(ibv_sge));
  if (wr.send_flags & IBV_SEND_INLINE) {  // the application may reuse the data as soon as we return
    auto* data = reinterpret_cast<unsigned char*>(parts + part_count);
    for (size_t i = 0; i < part_count; ++i) {
      memcpy(data, reinterpret_cast<const void*>(wr.sg_list[i].addr), wr.sg_list[i].length);
      parts[i].addr = reinterpret_cast<uint64_t>(data);
      data += wr.sg_list[i].length;
    }
  }
  if (last_ != nullptr)
    last_->next = record;
  else
    first_ = record;
  last_ = record;
  ++count_;
  return true;
}

ibv_send_wr* SendFifo::chain_due(uint64_t until, uint32_t limit, uint32_t* count) {
  Record* last = nullptr;
  uint32_t found = 0;
  for (Record* record = first_; record != nullptr && record->due_ns <= until && found < limit; record = record->next) {
    if (last != nullptr) last->wr.next = &record->wr;
    last = record;
    ++found;
  }
  *count = found;
  if (last == nullptr) return nullptr;
  last->wr.next = nullptr;
  return &first_->wr;
}

uint32_t SendFifo::due_count(uint64_t now, uint32_t limit) const {
  uint32_t found = 0;
  for (const Record* record = first_; record != nullptr && record->due_ns <= now && found < limit;
       record = record->next)
    ++found;
  return found;
}

void SendFifo::pop(uint32_t count) {
  for (; count != 0 && first_ != nullptr; --count) {
    Record* gone = first_;
    first_ = gone->next;
    --count_;
    if (--records_in[gone->segment - 1] == 0 && gone->segment != tail_segment_) give_back(gone->segment);
  }
  if (first_ != nullptr) return;
  last_ = nullptr;
  if (tail_segment_ != 0) give_back(tail_segment_);
  tail_segment_ = 0;
}

}  // namespace orrery::preload
