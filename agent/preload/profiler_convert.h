// Descriptors and states of one version of the profiler interface as those of an older one, the way NCCL itself shows
// them to older plug-ins. What the newer version no longer has is 0.
#pragma once

#include "agent/preload/profiler_abi.h"
#include "agent/preload/profiler_words.h"

namespace orrery::preload::profiler {

template <typename To, typename From>
void convert_coll(To& to, const From& from) {
  to.coll.sequence = from.coll.sequence;
  to.coll.send = from.coll.send;
  to.coll.receive = from.coll.receive;
  to.coll.count = from.coll.count;
  to.coll.root = from.coll.root;
  to.coll.channels = from.coll.channels;
  to.coll.warps = from.coll.warps;
  if constexpr (requires { to.coll.func = from.coll.func; }) {
    to.coll.func = from.coll.func;
    to.coll.datatype = from.coll.datatype;
    to.coll.algorithm = from.coll.algorithm;
    to.coll.protocol = from.coll.protocol;
  } else {
    to.coll.func = function_number(from.coll.func);
    to.coll.datatype = static_cast<uint8_t>(type_of(from.coll.datatype));
    to.coll.algorithm = algorithm_number(from.coll.algorithm);
    to.coll.protocol = protocol_number(from.coll.protocol);
  }
  if constexpr (requires { to.coll.comm_name = from.coll.comm_name; }) {
    to.coll.comm_name = from.coll.comm_name;
    to.coll.comm_hash = from.coll.comm_hash;
  }
  if constexpr (requires { to.coll.traffic_bytes = from.coll.traffic_bytes; })
    to.coll.traffic_bytes = from.coll.traffic_bytes;
  if constexpr (requires { to.coll.parent_group = from.coll.parent_group; })
    to.coll.parent_group = from.coll.parent_group;
  else if constexpr (requires { from.coll.parent_group; })
    to.parent = from.coll.parent_group;
}

template <typename To, typename From>
void convert_p2p(To& to, const From& from) {
  to.p2p.buffer = from.p2p.buffer;
  to.p2p.count = from.p2p.count;
  to.p2p.peer = from.p2p.peer;
  if constexpr (requires { to.p2p.func = from.p2p.func; }) {
    to.p2p.func = from.p2p.func;
    to.p2p.datatype = from.p2p.datatype;
  } else {
    to.p2p.func = function_number(from.p2p.func);
    to.p2p.datatype = static_cast<uint8_t>(type_of(from.p2p.datatype));
  }
  if constexpr (requires { to.p2p.comm_name = from.p2p.comm_name; }) {
    to.p2p.comm_name = from.p2p.comm_name;
    to.p2p.comm_hash = from.p2p.comm_hash;
  }
  if constexpr (requires { to.p2p.channels = from.p2p.channels; }) to.p2p.channels = from.p2p.channels;
  if constexpr (requires { to.p2p.parent_group = from.p2p.parent_group; })
    to.p2p.parent_group = from.p2p.parent_group;
  else if constexpr (requires { from.p2p.parent_group; })
    to.parent = from.p2p.parent_group;
}

// False when the older version has no such event.
template <typename To, typename From>
bool convert(To& to, const From& from) {
  memset(&to, 0, sizeof(to));
  to.type = static_cast<decltype(to.type)>(from.type);
  to.parent = from.parent;
  to.rank = from.rank;
  switch (from.type) {
    case kGroup:
    case kProxyCtrl:
      return true;
    case kColl:
      convert_coll(to, from);
      return true;
    case kP2p:
      convert_p2p(to, from);
      return true;
    case kProxyOp:
      to.proxy_op = from.proxy_op;
      return true;
    case kProxyStep:
      to.proxy_step = from.proxy_step;
      return true;
    case kKernelCh:
      if constexpr (requires { to.kernel_channel.gpu_time = from.kernel_channel.gpu_time; })
        to.kernel_channel.gpu_time = from.kernel_channel.gpu_time;
      if constexpr (requires { to.kernel_channel.channel = from.kernel_channel.channel; }) {
        to.kernel_channel.channel = from.kernel_channel.channel;
        return true;
      }
      return false;
    case kNetPlugin:
      if constexpr (requires { to.net_plugin = from.net_plugin; }) {
        to.net_plugin = from.net_plugin;
        return true;
      }
      return false;
  }
  if constexpr (requires { to.group_api = from.group_api; }) {
    switch (from.type) {
      case kGroupApi:
        to.group_api = from.group_api;
        return true;
      case kCollApi:
        to.coll_api = from.coll_api;
        return true;
      case kP2pApi:
        to.p2p_api = from.p2p_api;
        return true;
      case kKernelLaunch:
        to.kernel_launch = from.kernel_launch;
        return true;
    }
  }
  return false;
}

inline bool is_step_state(int state) {
  return (state >= kStepSendGpuWait && state <= kStepRecvGpuWait);
}
inline bool is_ctrl_state(int state) {
  return state >= kCtrlFirst && state <= kCtrlLast;
}

// False when versions 1 to 3 have no such state. `from` may be null.
inline bool convert_state(int state, StateArguments1& to, const StateArguments4* from) {
  memset(&to, 0, sizeof(to));
  if (is_ctrl_state(state) && from != nullptr) to.proxy_ctrl.appended = from->proxy_ctrl.appended;
  return is_ctrl_state(state) || is_step_state(state);
}
inline bool has_state(int version, int state) {
  if (state < kOpInProgress) return state >= 0;
  return state <= (version >= 6 ? kCeLast : version == 5 ? kGroupEndApiStart : kKernelChStop);
}

}  // namespace orrery::preload::profiler
