// What a run predicts that every NIC sends, as the file that orrery-controller reads (schemas/waveform.capnp).
#pragma once

#include "common/msg/waveform_messages.h"
#include "tools/sim/cli/command.h"

namespace orrery::sim {

// The scheme whose run is written: `named`, or the only planned one of `schemes`. Errors: kInvalidArgument, there is
// none such or more than one, with the names to choose from.
Result<Scheme> scheme_for_waveforms(const std::vector<Scheme>& schemes, std::optional<Scheme> named);

// Of a recorded run. Errors: kInvalidArgument, a job of which no iteration ended, or a fabric that is too large for one
// file.
Result<std::string> waveforms_file(const RunRequest& request, const fabric::Graph& graph, const Traffic& traffic,
                                   const Observation& run);

}  // namespace orrery::sim
