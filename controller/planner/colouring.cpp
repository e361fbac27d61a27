#include "controller/planner/colouring.h"

#include <algorithm>

namespace orrery::planner {
namespace {

constexpr uint32_t kNoEdge = 0xffffffff;

// One side of the graph, its vertices split into parts of at most `colours` edges each.
class Side {
 public:
  Side(std::span<const Edge> edges, uint32_t Edge::*vertex, uint32_t colours)
      : colours_(colours), part_of_(edges.size()) {
    uint32_t vertices = 0;
    for (const Edge& edge : edges) vertices = std::max(vertices, edge.*vertex + 1);
    std::vector<uint32_t> degree(vertices);
    for (const Edge& edge : edges) ++degree[edge.*vertex];
    first_.resize(vertices + 1);
    for (uint32_t v = 0; v < vertices; ++v) first_[v + 1] = first_[v] + (degree[v] + colours - 1) / colours;
    edge_at_.assign(static_cast<size_t>(first_.back()) * colours, kNoEdge);
  }

  uint32_t part(uint32_t edge) const { return part_of_[edge]; }
  uint32_t& at(uint32_t part, uint32_t colour) { return edge_at_[static_cast<size_t>(part) * colours_ + colour]; }

  // The part of `vertex` in which `colour` is still free; kNoEdge when none is.
  uint32_t part_without(uint32_t vertex, uint32_t colour) {
    for (uint32_t part = first_[vertex]; part < first_[vertex + 1]; ++part)
      if (at(part, colour) == kNoEdge) return part;
    return kNoEdge;
  }
  void place(uint32_t edge, uint32_t part) { part_of_[edge] = part; }

  // Fills the parts of each vertex, in order, with the edges that have no part yet.
  void fill(std::span<const Edge> edges, uint32_t Edge::*vertex, const std::vector<uint32_t>& colour_of) {
    std::vector<uint32_t> size(first_.back());
    for (uint32_t edge = 0; edge < edges.size(); ++edge)
      if (colour_of[edge] != kNoEdge) ++size[part_of_[edge]];
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (uint32_t edge = 0; edge < edges.size(); ++edge) {
      if (colour_of[edge] != kNoEdge) continue;
      uint32_t& part = next[edges[edge].*vertex];
      while (size[part] == colours_) ++part;
      ++size[part];
      part_of_[edge] = part;
    }
  }

 private:
  uint32_t colours_;
  std::vector<uint32_t> first_;    // first part of each vertex
  std::vector<uint32_t> part_of_;  // by edge
  std::vector<uint32_t> edge_at_;  // by part and colour
};

class Colouring {
 public:
  Colouring(std::span<const Edge> edges, uint32_t colours, uint32_t rotation)
      : edges_(edges),
        colours_(colours),
        rotation_(rotation),
        left_(edges, &Edge::left, colours),
        right_(edges, &Edge::right, colours),
        colour_of_(edges.size(), kNoEdge) {}

  std::vector<uint32_t> run() {
    keep_preferred();
    left_.fill(edges_, &Edge::left, colour_of_);
    right_.fill(edges_, &Edge::right, colour_of_);
    for (uint32_t edge = 0; edge < edges_.size(); ++edge)
      if (colour_of_[edge] == kNoEdge) add(edge);
    return std::move(colour_of_);
  }

 private:
  void keep_preferred() {
    for (uint32_t edge = 0; edge < edges_.size(); ++edge) {
      const uint32_t colour = edges_[edge].preferred;
      if (colour >= colours_) continue;
      const uint32_t left = left_.part_without(edges_[edge].left, colour);
      const uint32_t right = right_.part_without(edges_[edge].right, colour);
      if (left == kNoEdge || right == kNoEdge) continue;
      left_.place(edge, left);
      right_.place(edge, right);
      assign(edge, colour);
    }
  }

  void assign(uint32_t edge, uint32_t colour) {
    colour_of_[edge] = colour;
    left_.at(left_.part(edge), colour) = edge;
    right_.at(right_.part(edge), colour) = edge;
  }

  void add(uint32_t edge) {
    const uint32_t left = left_.part(edge), right = right_.part(edge);
    uint32_t free_left = kNoEdge, free_right = kNoEdge;
    for (uint32_t step = 0; step < colours_; ++step) {
      const uint32_t colour = (edges_[edge].left + rotation_ + step) % colours_;
      const bool in_left = left_.at(left, colour) == kNoEdge, in_right = right_.at(right, colour) == kNoEdge;
      if (in_left && in_right) return assign(edge, colour);
      if (in_left && free_left == kNoEdge) free_left = colour;
      if (in_right && free_right == kNoEdge) free_right = colour;
    }
    flip(right, free_left, free_right);
    assign(edge, free_left);
  }

  // Exchanges `colour` and `other` along the path that leaves the right-hand part by `colour`, which frees `colour`
  // there. The path enters left-hand parts by `colour` only, so it never reaches the part that lacks it.
  void flip(uint32_t right, uint32_t colour, uint32_t other) {
    path_.clear();
    uint32_t part = right;
    bool at_right = true;
    for (uint32_t along = colour;; along = along == colour ? other : colour) {
      const uint32_t edge = at_right ? right_.at(part, along) : left_.at(part, along);
      if (edge == kNoEdge) break;
      path_.push_back(edge);
      at_right = !at_right;
      part = at_right ? right_.part(edge) : left_.part(edge);
    }
    for (uint32_t edge : path_) {
      left_.at(left_.part(edge), colour_of_[edge]) = kNoEdge;
      right_.at(right_.part(edge), colour_of_[edge]) = kNoEdge;
    }
    for (uint32_t edge : path_) assign(edge, colour_of_[edge] == colour ? other : colour);
  }

  std::span<const Edge> edges_;
  uint32_t colours_;
  uint32_t rotation_;
  Side left_;
  Side right_;
  std::vector<uint32_t> colour_of_;
  std::vector<uint32_t> path_;
};

}  // namespace

std::vector<uint32_t> colour_edges(std::span<const Edge> edges, uint32_t colours, uint32_t rotation) {
  return Colouring(edges, colours, rotation).run();
}

}  // namespace orrery::planner
