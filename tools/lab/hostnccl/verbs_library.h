// libibverbs as NCCL takes it: opened at run time, every function by dlvsym with its version, so that a machine without
// it still has sockets. Posting and polling are not here: they go through the tables in the queue pair's and completion
// queue's context, as in <infiniband/verbs.h>.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "common/base/result.h"

// Macros of verbs.h that stand in the way of members of these names.
#undef ibv_reg_mr
#undef ibv_query_port

namespace orrery::hostnccl {

struct VerbsLibrary {
  std::string path;  // as opened

  // IBVERBS_1.1; all are there.
  decltype(&::ibv_fork_init) fork_init = nullptr;
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_get_async_event) get_async_event = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&::ibv_event_type_str) event_type_str = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::ibv_query_port) query_port = nullptr;
  decltype(&::ibv_query_gid) query_gid = nullptr;
  decltype(&::ibv_query_qp) query_qp = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr) reg_mr = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;

  // Newer versions; null when the library lacks them.
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2 = nullptr;  // 1.8
  decltype(&::ibv_query_ece) query_ece = nullptr;        // 1.10
  decltype(&::ibv_set_ece) set_ece = nullptr;            // 1.10

  // NCCL_IBVERBS_LIB when set, libibverbs.so, libibverbs.so.1. kNotFound: none can be opened; kUnavailable: one lacks a
  // function.
  static Result<VerbsLibrary> open();
};

}  // namespace orrery::hostnccl
