#include "agent/preload/layers.h"

#include "agent/preload/dl_hook.h"
#include "common/abi/attach_abi.h"

namespace orrery::preload {

static constinit uint32_t layers = ORRERY_LAYER_NCCL | ORRERY_LAYER_VERBS | ORRERY_LAYER_SOCKETS;

uint32_t active_layers() {
  const uint32_t set = __atomic_load_n(&layers, __ATOMIC_RELAXED);
  return dl_hook_is_active() ? set | ORRERY_LAYER_DLSYM : set;
}

void set_layer(uint32_t layer, bool active) {
  if (active)
    __atomic_fetch_or(&layers, layer, __ATOMIC_RELAXED);
  else
    __atomic_fetch_and(&layers, ~layer, __ATOMIC_RELAXED);
}

}  // namespace orrery::preload
