// The file that orrery-sim run --waveforms wrote, as the prediction it holds.
#pragma once

#include <string>

#include "common/base/result.h"
#include "controller/daemon/nic_prediction.h"
#include "controller/fabric/graph.h"

namespace orrery::daemon {

// Errors name the file, what is wrong with it and what to do; nothing but a plain file is read.
Result<NicPrediction> load_waveforms(const std::string& path, const fabric::Graph& fabric);

}  // namespace orrery::daemon
