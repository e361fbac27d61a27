#include "tools/sim/workload/chakra_trace.h"

#include <fmt/format.h>

#include "tools/sim/workload/input.h"
#include "tools/sim/workload/job_file.h"
#include "tools/sim/workload/wire_reader.h"

namespace orrery::sim {
namespace {

// Field numbers of message Node, and of message AttributeProto.
enum NodeField : uint32_t { kId = 1, kType = 3, kControlDeps = 4, kDataDeps = 5, kDuration = 7, kAttribute = 10 };
enum AttributeField : uint32_t { kName = 1, kSint32 = 15, kSint64 = 17, kBool = 27, kBoolList = 28, kString = 29 };
enum NodeType : uint64_t { kMetadata = 1, kCompute = 4, kSend = 5, kReceive = 6, kCollective = 7, kMostTypes = 64 };

constexpr size_t kMaxGroupNameBytes = 255;

class NodeDecoder {
 public:
  NodeDecoder(const Input& input, ChakraNode& node) : input_(input), node_(node) {}

  Status decode(std::string_view bytes, uint64_t offset) {
    node_.offset = offset;
    WireReader reader(bytes, offset);
    while (!reader.at_end()) {
      WireReader::Field field;
      const uint64_t place = reader.offset();
      if (!reader.field(field)) return corrupt(place, "no protobuf field; is it a Chakra trace, and whole?");
      ORRERY_TRY(take(field));
    }
    return {};
  }

 private:
  Error corrupt(uint64_t place, std::string_view what) const { return byte_error(input_.name, place, what); }

  Status take(const WireReader::Field& field) {
    switch (field.number) {
      case kId:
        node_.id = field.value;
        return {};
      case kType:
        return take_type(field);
      case kControlDeps:
      case kDataDeps:
        return take_dependencies(field);
      case kDuration:
        return take_duration(field);
      case kAttribute:
        if (!field.is_block) return corrupt(field.offset, "an attribute that is no message");
        return take_attribute(field);
      default:
        return {};
    }
  }

  Status take_type(const WireReader::Field& field) {
    if (field.is_block || field.value >= kMostTypes) return corrupt(field.offset, "a node of an unknown type");
    using Kind = ChakraNode::Kind;
    node_.kind = field.value == kCompute      ? Kind::kCompute
                 : field.value == kSend       ? Kind::kSend
                 : field.value == kReceive    ? Kind::kReceive
                 : field.value == kCollective ? Kind::kCollective
                                              : Kind::kOther;
    return {};
  }

  Status take_duration(const WireReader::Field& field) {
    if (field.is_block || field.value > kMaxComputeNs / 1'000)
      return corrupt(field.offset, fmt::format("a duration of {} microseconds is too long", field.value));
    node_.duration = field.value * kPerUs;
    return {};
  }

  // One number, or several packed into a block.
  Status take_dependencies(const WireReader::Field& field) {
    if (!field.is_block) {
      node_.after.push_back(field.value);
      return {};
    }
    WireReader reader(field.bytes, field.offset);
    while (!reader.at_end()) {
      uint64_t id = 0;
      const uint64_t place = reader.offset();
      if (!reader.varint(id)) return corrupt(place, "dependencies that are cut off");
      node_.after.push_back(id);
    }
    return {};
  }

  Status take_attribute(const WireReader::Field& attribute) {
    std::string_view name, block;
    uint64_t value = 0;
    uint32_t kind = 0;
    WireReader reader(attribute.bytes, attribute.offset);
    while (!reader.at_end()) {
      WireReader::Field field;
      const uint64_t place = reader.offset();
      if (!reader.field(field)) return corrupt(place, "an attribute that is cut off");
      if (field.number == kName && field.is_block) {
        name = field.bytes;
      } else if (field.is_block) {
        block = field.bytes;
        kind = field.number;
      } else {
        value = field.number == kSint32 || field.number == kSint64 ? (field.value >> 1) ^ (~(field.value & 1) + 1)
                                                                   : field.value;
        kind = field.number;
      }
    }
    return apply(name, value, kind, block, attribute.offset);
  }

  Status apply(std::string_view name, uint64_t value, uint32_t kind, std::string_view block, uint64_t offset) {
    if (name == "comm_type") {
      node_.collective = value;
    } else if (name == "comm_size") {
      if (value > kMaxCollectiveBytes) return corrupt(offset, fmt::format("comm_size {} is too large", value));
      node_.bytes = value;
    } else if (name == "comm_src") {
      node_.src = value;
    } else if (name == "comm_dst") {
      node_.dst = value;
    } else if (name == "comm_tag") {
      node_.tag = value;
    } else if (name == "root" || name == "comm_root") {
      node_.root = value;
    } else if (name == "runtime" && node_.duration == 0) {
      if (value > kMaxComputeNs / 1'000) return corrupt(offset, fmt::format("a runtime of {} is too long", value));
      node_.duration = value * kPerUs;
    } else if (name == "pg_name") {
      if (kind != kString || block.size() > kMaxGroupNameBytes)
        return corrupt(offset, "a process group without a name");
      node_.group = block;
    } else if (name == "involved_dim" && kind == kBoolList) {
      return take_dimensions(block, offset);
    }
    return {};
  }

  // Which dimensions of ASTRA-sim's topology a collective spans: only all of them mean something here.
  Status take_dimensions(std::string_view block, uint64_t offset) {
    WireReader reader(block, offset);
    while (!reader.at_end()) {
      WireReader::Field field;
      if (!reader.field(field)) return corrupt(offset, "involved_dim is cut off");
      const std::string_view flags = field.bytes;
      const bool all = field.is_block ? flags.find('\0') == std::string_view::npos : field.value != 0;
      if (!all)
        return corrupt(offset, "a collective over some dimensions of ASTRA-sim's topology; name its ranks by pg_name");
    }
    return {};
  }

  const Input& input_;
  ChakraNode& node_;
};

}  // namespace

Result<std::vector<ChakraNode>> decode_chakra(const Input& input, uint64_t& left) {
  std::vector<ChakraNode> nodes;
  WireReader reader(input.text);
  bool metadata = true;  // the first message is the trace's, not a node
  while (!reader.at_end()) {
    const uint64_t place = reader.offset();
    std::string_view message;
    if (!reader.block(message))
      return byte_error(input.name, place, "a message that is longer than what is left; is the trace cut off?");
    if (metadata) {
      metadata = false;
      continue;
    }
    if (left == 0) return byte_error(input.name, place, "more nodes than fit; take a shorter trace or fewer ranks");
    --left;
    ORRERY_TRY(NodeDecoder(input, nodes.emplace_back()).decode(message, reader.offset() - message.size()));
  }
  if (nodes.empty()) return byte_error(input.name, 0, "has no nodes; is it a Chakra trace?");
  return nodes;
}

}  // namespace orrery::sim
