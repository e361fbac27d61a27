// The function pointers of extended queue pairs (ibv_wr_*) and extended completion queues (ibv_start_poll), which each
// object has of its own. They are replaced when the program first gets at them, and put back before it is destroyed.
#pragma once

#include "agent/preload/qp_table.h"

namespace orrery::preload {

// What ibv_qp_to_qp_ex has answered.
void adopt_extended_qp(ibv_qp_ex* qp);
void adopt_extended_cq(ibv_cq_ex* cq);
// Before the object is destroyed. True when there was something to put back: if destroying it fails, adopt it again.
bool release_extended_qp(ibv_qp* qp);
bool release_extended_cq(ibv_cq* cq);

}  // namespace orrery::preload
