// The file that orrery-sim run --waveforms wrote, as the prediction it holds.
#pragma once

#include <string>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "controller/forecast/nic_prediction.h"

namespace orrery::daemon {

// Errors name the file, what is wrong with it and what to do; nothing but a plain file is read.
Result<forecast::NicPrediction> load_waveforms(const std::string& path, const fabric::Graph& fabric);

}  // namespace orrery::daemon
