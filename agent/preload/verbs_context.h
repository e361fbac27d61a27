// The device contexts of this process, and the places in them where the data path of verbs begins.
//
// Programs post and poll through a table of function pointers in the context (ibv_post_send is inline), so the hooks
// are put there: once per context, after checking that the table is what it should be. What is not understood is left
// alone. Control path: serialised by a spin lock.
#pragma once

#include "agent/preload/qp_table.h"

namespace orrery::preload {

inline constexpr uint32_t kMaxContexts = 64;
inline constexpr uint32_t kMaxProviders = 8;  // distinct sets of functions, not devices

// Each set of a provider's functions has hooks of its own, which know it without looking anything up.
extern ProviderOps providers[kMaxProviders];
struct DataHooks {
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  int (*poll_cq)(ibv_cq*, int, ibv_wc*);
};
extern const DataHooks data_hooks[kMaxProviders];  // verbs_data.cpp

// Puts the hooks into a context that has none yet. Null when that context is not to be touched.
const ProviderOps* adopt_context(ibv_context* context);
// Takes the hooks out before the context is closed; only what is still as we left it.
void release_context(ibv_context* context);

// To be called for every queue pair that is made, by whatever function. `cap` as granted.
void note_qp_created(ibv_qp* qp, bool sig_all, const ibv_qp_cap& cap);

inline constexpr uint8_t kUnknownLink = 0xff;
// enum: IBV_LINK_LAYER_*; asks the device once.
uint8_t link_layer_of(ibv_context* context, uint8_t port_num);

}  // namespace orrery::preload
