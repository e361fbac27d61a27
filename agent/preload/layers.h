// Which layers of the library work in this process, as the attach request and orrery-preload-check report them. Why one
// does not work is what orrery-preload-check finds out, from outside.
#pragma once

#include <stdint.h>

namespace orrery::preload {

// A set of ORRERY_LAYER_ bits (common/abi/attach_abi.h).
uint32_t active_layers();
// For layers that depend on what the process has loaded. To be called on any thread; a later attach request tells it.
void set_layer(uint32_t layer, bool active);

}  // namespace orrery::preload
