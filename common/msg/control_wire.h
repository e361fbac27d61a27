// The parts of a control response, each with its checked reader and its writer.
#pragma once

#include "common/msg/control_messages.h"
#include "schemas/control.capnp.h"

namespace orrery::msg {

Result<PlanList> read_plan_list(wire::PlanList::Reader in);
Result<FlowExplanation> read_explanation(wire::FlowExplanation::Reader in);
Result<FlowList> read_flow_list(wire::FlowList::Reader in);
Result<LinkState> read_link_state(wire::LinkState::Reader in);
Result<JobState> read_job_state(wire::JobState::Reader in);
Result<ForecastState> read_forecast_state(wire::ForecastState::Reader in);
Result<NicForecasts> read_nic_forecasts(wire::NicForecasts::Reader in);
Result<HostState> read_host_state(wire::HostState::Reader in);
Result<SwitchState> read_switch_state(wire::SwitchState::Reader in);
Result<Health> read_health(wire::Health::Reader in);

void write_plan_list(wire::PlanList::Builder out, const PlanList& in);
void write_explanation(wire::FlowExplanation::Builder out, const FlowExplanation& in);
void write_flow_list(wire::FlowList::Builder out, const FlowList& in);
void write_link_state(wire::LinkState::Builder out, const LinkState& in);
void write_job_state(wire::JobState::Builder out, const JobState& in);
void write_forecast_state(wire::ForecastState::Builder out, const ForecastState& in);
void write_nic_forecasts(wire::NicForecasts::Builder out, const NicForecasts& in);
void write_host_state(wire::HostState::Builder out, const HostState& in);
void write_switch_state(wire::SwitchState::Builder out, const SwitchState& in);
void write_health(wire::Health::Builder out, const Health& in);

}  // namespace orrery::msg
