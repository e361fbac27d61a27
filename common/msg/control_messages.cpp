#include "common/msg/control_messages.h"

#include "common/msg/codec.h"
#include "common/msg/control_wire.h"
#include "common/msg/wire_read.h"
#include "schemas/control.capnp.h"

namespace orrery::msg {
namespace {

Result<Request> read_request(wire::Request::Reader in) {
  switch (in.which()) {
    case wire::Request::PLAN_LIST:
      return Request{Request::Kind::kPlanList};
    case wire::Request::FLOW_EXPLAIN:
      return Request{Request::Kind::kFlowExplain, in.getFlowExplain()};
    case wire::Request::LINK_LIST:
      return Request{Request::Kind::kLinkList};
    case wire::Request::JOB_LIST:
      return Request{Request::Kind::kJobList};
    case wire::Request::HOST_LIST:
      return Request{Request::Kind::kHostList};
    case wire::Request::SWITCH_LIST:
      return Request{Request::Kind::kSwitchList};
    case wire::Request::HEALTH:
      return Request{Request::Kind::kHealth};
    case wire::Request::FORECAST_LIST:
      return Request{Request::Kind::kForecastList};
    case wire::Request::FLOW_LIST:
      return Request{Request::Kind::kFlowList};
    case wire::Request::NIC_FORECASTS:
      return Request{Request::Kind::kNicForecasts};
  }
  return Error{ErrorCode::kCorrupt,
               std::string(RequestError::kUnknownKind) + "; use the orreryctl of the controller's version"};
}

void write_request(wire::Request::Builder out, const Request& in) {
  switch (in.kind) {
    case Request::Kind::kPlanList:
      return out.setPlanList();
    case Request::Kind::kFlowExplain:
      return out.setFlowExplain(in.flow_id);
    case Request::Kind::kLinkList:
      return out.setLinkList();
    case Request::Kind::kJobList:
      return out.setJobList();
    case Request::Kind::kHostList:
      return out.setHostList();
    case Request::Kind::kSwitchList:
      return out.setSwitchList();
    case Request::Kind::kHealth:
      return out.setHealth();
    case Request::Kind::kForecastList:
      return out.setForecastList();
    case Request::Kind::kFlowList:
      return out.setFlowList();
    case Request::Kind::kNicForecasts:
      return out.setNicForecasts();
  }
}

template <typename T>
Result<Response> as_response(Result<T> read) {
  if (!read) return read.error();
  return Response(*std::move(read));
}

Result<Response> read_response(wire::Response::Reader in) {
  switch (in.which()) {
    case wire::Response::ERROR:
      return Response(RequestError{read_text(in.getError())});
    case wire::Response::PLAN_LIST:
      return as_response(read_plan_list(in.getPlanList()));
    case wire::Response::FLOW_EXPLAIN:
      return as_response(read_explanation(in.getFlowExplain()));
    case wire::Response::LINK_LIST:
      return as_response(read_list<LinkState>("links", in.getLinkList(), kMaxItems, read_link_state));
    case wire::Response::JOB_LIST:
      return as_response(read_list<JobState>("jobs", in.getJobList(), kMaxItems, read_job_state));
    case wire::Response::HOST_LIST:
      return as_response(read_list<HostState>("hosts", in.getHostList(), kMaxItems, read_host_state));
    case wire::Response::SWITCH_LIST:
      return as_response(read_list<SwitchState>("switches", in.getSwitchList(), kMaxItems, read_switch_state));
    case wire::Response::HEALTH:
      return as_response(read_health(in.getHealth()));
    case wire::Response::FORECAST_LIST:
      return as_response(read_list<ForecastState>("forecasts", in.getForecastList(), kMaxItems, read_forecast_state));
    case wire::Response::FLOW_LIST:
      return as_response(read_flow_list(in.getFlowList()));
    case wire::Response::NIC_FORECASTS:
      return as_response(read_nic_forecasts(in.getNicForecasts()));
  }
  return corrupt("Response", "is of a kind this version does not know; use the orreryctl of the controller's version");
}

// Writes each element of `in` into the list that `init` makes.
template <typename Init, typename T, typename WriteOne>
void write_list(Init&& init, const std::vector<T>& in, WriteOne&& write_one) {
  auto out = init(static_cast<unsigned>(in.size()));
  for (unsigned i = 0; i < in.size(); ++i) write_one(out[i], in[i]);
}

struct ResponseWriter {
  wire::Response::Builder out;
  void operator()(const RequestError& in) { out.setError(in.message); }
  void operator()(const PlanList& in) { write_plan_list(out.initPlanList(), in); }
  void operator()(const FlowExplanation& in) { write_explanation(out.initFlowExplain(), in); }
  void operator()(const FlowList& in) { write_flow_list(out.initFlowList(), in); }
  void operator()(const NicForecasts& in) { write_nic_forecasts(out.initNicForecasts(), in); }
  void operator()(const Health& in) { write_health(out.initHealth(), in); }
  void operator()(const std::vector<LinkState>& in) {
    write_list([this](unsigned n) { return out.initLinkList(n); }, in, write_link_state);
  }
  void operator()(const std::vector<JobState>& in) {
    write_list([this](unsigned n) { return out.initJobList(n); }, in, write_job_state);
  }
  void operator()(const std::vector<HostState>& in) {
    write_list([this](unsigned n) { return out.initHostList(n); }, in, write_host_state);
  }
  void operator()(const std::vector<SwitchState>& in) {
    write_list([this](unsigned n) { return out.initSwitchList(n); }, in, write_switch_state);
  }
  void operator()(const std::vector<ForecastState>& in) {
    write_list([this](unsigned n) { return out.initForecastList(n); }, in, write_forecast_state);
  }
};

}  // namespace

Result<std::string> encode(const Request& request) {
  return encode<wire::Request>([&](wire::Request::Builder out) { write_request(out, request); });
}

Result<std::string> encode(const Response& response) {
  return encode<wire::Response>([&](wire::Response::Builder out) { std::visit(ResponseWriter{out}, response); });
}

Result<Request> decode_request(std::string_view frame) {
  return decode<wire::Request>(frame, read_request);
}
Result<Response> decode_response(std::string_view frame) {
  return decode<wire::Response>(frame, read_response);
}

}  // namespace orrery::msg
