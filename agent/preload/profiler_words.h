// The words NCCL's profiler interface uses for functions, types and algorithms, and their numbers (version 1 has only
// the numbers).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/preload/nccl_abi.h"
#include "common/abi/event_abi.h"

namespace orrery::preload::profiler {

struct Function {
  const char* word;
  uint8_t number;  // in version 1
  orrery_collective_op op;
  bool has_root;
};
inline constexpr uint8_t kNoNumber = 255;
inline constexpr Function kFunctions[] = {
    {"Broadcast", 0, ORRERY_OP_BROADCAST, true},
    {"Reduce", 1, ORRERY_OP_REDUCE, true},
    {"AllGather", 2, ORRERY_OP_ALL_GATHER, false},
    {"ReduceScatter", 3, ORRERY_OP_REDUCE_SCATTER, false},
    {"AllReduce", 4, ORRERY_OP_ALL_REDUCE, false},
    {"Send", 6, ORRERY_OP_SEND, false},
    {"Recv", 7, ORRERY_OP_RECV, false},
    {"AlltoAll", kNoNumber, ORRERY_OP_ALL_TO_ALL, false},
    {"Gather", kNoNumber, ORRERY_OP_GATHER, true},
    {"Scatter", kNoNumber, ORRERY_OP_SCATTER, true},
    {"PutSignal", kNoNumber, ORRERY_OP_PUT, false},
};

// Null for a function that moves nothing, or that is not known.
inline const Function* find_function(const char* word) {
  if (word == nullptr) return nullptr;
  for (const Function& function : kFunctions)
    if (strcmp(function.word, word) == 0) return &function;
  return nullptr;
}
inline const Function* find_function(uint8_t number) {
  for (const Function& function : kFunctions)
    if (function.number == number && number != kNoNumber) return &function;
  return nullptr;
}

// By ncclDataType_t. NCCL 2.30 has no word for the second and says "Unknown".
inline constexpr const char* kTypeWords[] = {"ncclInt8",    "Unknown",      "ncclInt32",      "ncclUint32",
                                             "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                             "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
inline constexpr ncclDataType_t kUint8 = 1;

inline ncclDataType_t type_of(const char* word) {
  if (word == nullptr) return kUint8;
  for (size_t i = 0; i < sizeof(kTypeWords) / sizeof(kTypeWords[0]); ++i)
    if (strcmp(kTypeWords[i], word) == 0) return static_cast<ncclDataType_t>(i);
  return kUint8;
}
inline ncclDataType_t type_of(uint8_t number) {
  return number;
}

// Numbers of version 1 for the words of later ones, as NCCL itself gives them to plug-ins of version 1.
inline uint8_t function_number(const char* word) {
  if (word != nullptr && strcmp(word, "SendRecv") == 0) return 5;
  const Function* function = find_function(word);
  return function != nullptr && function->number != kNoNumber ? function->number : 6;
}
inline uint8_t index_of(const char* word, const char* const* words, uint8_t count) {
  uint8_t i = 0;
  while (i < count && (word == nullptr || strcmp(words[i], word) != 0)) ++i;
  return i;
}
inline uint8_t algorithm_number(const char* word) {
  constexpr const char* words[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"};
  return index_of(word, words, 6);  // else PAT, 6
}
inline uint8_t protocol_number(const char* word) {
  constexpr const char* words[] = {"LL", "LL128"};
  return index_of(word, words, 2);  // else SIMPLE, 2
}

}  // namespace orrery::preload::profiler
