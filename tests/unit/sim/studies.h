// A study of one traffic on plain packets.
#pragma once

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/runner/runner.h"

namespace orrery::sim {

inline Study study_of(const fabric::Graph& graph, const Traffic& traffic, std::vector<Scheme> schemes,
                      std::vector<uint64_t> seeds = {1}) {
  Study study;
  study.graph = &graph;
  study.traffic = &traffic;
  study.engine = [](const fabric::Graph& fabric, const Program& program,
                    const EngineRequest& request) -> Result<RunResult> {
    PacketConfig config = plain_config();
    config.seed = request.seed;
    if (request.record) config.recording.slice = 4 * kPerUs;
    return run_packets(fabric, program, config, request.watch);
  };
  study.schemes = std::move(schemes);
  study.seeds = std::move(seeds);
  return study;
}

}  // namespace orrery::sim
