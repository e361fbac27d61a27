// Whether this process has switched the library off: ORRERY_DISABLE, or a program that runs with more rights than its
// user (where no environment is to be believed).
#pragma once

namespace orrery::preload {

// Reads the environment at the first call, never again. Neither allocates nor locks; to be called from any thread.
bool is_switched_off();

}  // namespace orrery::preload
