// NCCL's profiler plug-in interface, versions 1 to 6: the way into an NCCL whose API is hidden (in a static library),
// and the only place where the replays of a CUDA graph show.
//
// NCCL loads us when NCCL_PROFILER_PLUGIN is STATIC_PLUGIN (the symbols are in the program's global scope) or this
// library's absolute path (the loader returns the object that is mapped already, one set of globals); and when it looks
// up another plug-in, which then stands behind us (profiler_chain.h). RCCL's default name is librccl-profiler.so.
//
// We ask for collectives and point-to-point calls and nothing else: NCCL then also tells of the API calls above them
// (since 2.28, with whether a graph captures them) and of the kernel plan ("group") around them; neither costs a proxy
// thread or the GPU anything. What is reported, all with ORRERY_COLLECTIVE_FROM_PROFILER:
//
//   communicator of           hidden NCCL                       NCCL with API wrappers
//   an ordinary call          at the plan, before its packets   not again
//   captured (2.28 on)        CAPTURED                          the wrapper's event, with CAPTURED
//   replayed, 2.28 on         REPLAY                            REPLAY
//   replayed, 2.23 to 2.27    as an ordinary call               REPLAY, but the first, which the captured call stands
//   for
//
// Handles we give NCCL are numbers, never addresses: none can dangle, whatever is recorded or stopped after it ended,
// twice or never, or in another process (PXN). No parent is ever dereferenced.
#pragma once

namespace orrery::preload::profiler {

// What the symbol ncclProfiler_vN of this library is.
void* own_table(int version);

// ORRERY_PROFILER=0: no plug-in of the user's is replaced by ours, and we ask for nothing.
bool stands_down();

}  // namespace orrery::preload::profiler
