#include "controller/fabric/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "controller/fabric/plain_yaml.h"

namespace orrery::fabric {
namespace {

using Kind = YamlNode::Kind;

// Grows the tree from yaml-cpp's events. Stops the parser by throwing its own exception type, which parse_yaml()
// catches.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    attach(make(mark, Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    if (value.size() > kYamlMaxScalarBytes)
      throw YAML::ParserException(
          mark, fmt::format("a text of {} bytes; the limit is {}", value.size(), kYamlMaxScalarBytes));
    YamlNode node =
        make(mark, tag == "?" && (value.empty() || value == "~" || value == "null") ? Kind::kNull : Kind::kScalar);
    node.was_quoted = tag == "!";
    node.text = value;
    attach(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  static void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0)
      throw YAML::ParserException(mark, "anchors (&) and aliases (*) are not accepted; write the value out");
  }
  YamlNode make(const YAML::Mark& mark, Kind kind) {
    if (++nodes_ > kYamlMaxNodes)
      throw YAML::ParserException(mark, fmt::format("more than {} values; split the fabric", kYamlMaxNodes));
    YamlNode node;
    node.kind = kind;
    node.line = static_cast<uint32_t>(mark.line + 1);
    return node;
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Kind kind) {
    refuse_anchor(mark, anchor);
    if (open_.size() >= kYamlMaxDepth)
      throw YAML::ParserException(
          mark, fmt::format("nested deeper than {} levels; check the indentation and brackets", kYamlMaxDepth));
    if (!open_.empty() && wants_key(open_.back()))
      throw YAML::ParserException(mark, "a key must be plain text; check the indentation and brackets");
    open_.push_back(make(mark, kind));
  }
  void close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    attach(std::move(node));
  }
  static bool wants_key(const YamlNode& node) {
    return node.kind == Kind::kMap && node.keys.size() == node.items.size();
  }
  void attach(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (wants_key(open_.back())) {
      open_.back().keys.push_back(std::move(node));
    } else {
      open_.back().items.push_back(std::move(node));
    }
  }

  YamlNode root_;
  std::vector<YamlNode> open_;
  size_t nodes_ = 0;
};

}  // namespace

YamlNode parse_yaml(std::string_view yaml, Mistakes& mistakes) {
  if (yaml.size() > kYamlMaxBytes) {
    mistakes.add(0, "", fmt::format("{} bytes; a topology file has at most {}", yaml.size(), kYamlMaxBytes));
    return {};
  }
  if (!check_plain_yaml(yaml, mistakes)) return {};
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {};
    YamlNode root = builder.take_root();
    TreeBuilder second;
    if (parser.HandleNextDocument(second))
      mistakes.add(second.take_root().line, "", "a second YAML document; keep one per file and remove the '---' line");
    return root;
  } catch (const YAML::Exception& exception) {
    const uint32_t line = exception.mark.is_null() ? 0 : static_cast<uint32_t>(exception.mark.line + 1);
    mistakes.add(line, "", fmt::format("not YAML that can be read here: {}", exception.msg));
    return {};
  }
}

std::string_view kind_name(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "empty";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kList:
      return "a list";
    default:
      return "a map";
  }
}

}  // namespace orrery::fabric
