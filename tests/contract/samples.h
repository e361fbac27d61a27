// One message of every kind with every field set to a value of its own, as release 0.1.0 could say it. Never changed
// after the release: the golden files hold these messages.
#pragma once

#include <string>
#include <vector>

#include "common/msg/control_messages.h"
#include "common/msg/intent_messages.h"
#include "common/msg/plan_messages.h"
#include "common/msg/switch_messages.h"
#include "common/msg/waveform_messages.h"

namespace orrery::test {

msg::IntentWindow sample_window();
std::vector<msg::AgentMessage> sample_agent_messages();
std::vector<msg::ControllerMessage> sample_controller_messages();
std::vector<msg::SwitchMessage> sample_switch_messages();
std::vector<msg::SwitchCommand> sample_switch_commands();
std::vector<msg::Request> sample_requests();
std::vector<msg::Response> sample_responses();

// File name (without folder) and encoded bytes of every sample.
struct EncodedSample {
  std::string file;
  std::string bytes;
};
std::vector<EncodedSample> encoded_samples();

// What release 0.2.0 adds: queue pairs, layers and device traffic. Only messages that can say something new.
msg::IntentWindow sample_window_0_2();
std::vector<msg::AgentMessage> sample_agent_messages_0_2();
std::vector<msg::Request> sample_requests_0_2();
std::vector<msg::Response> sample_responses_0_2();
std::vector<EncodedSample> encoded_samples_0_2();

// What release 0.3.0 adds: bounds of plans, and what simulations predict of NICs.
std::vector<msg::Request> sample_requests_0_3();
std::vector<msg::Response> sample_responses_0_3();
std::vector<msg::Waveforms> sample_waveforms_0_3();
std::vector<EncodedSample> encoded_samples_0_3();

}  // namespace orrery::test
