// A table in a file, its lines in blocks of one run each: lines that begin with the same scheme and seed. What an
// interrupted program has written can be taken up block by block.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace orrery::sim {

struct CsvBlock {
  std::string run;  // "ecmp,1"
  std::string digest;
  uint64_t offset = 0, bytes = 0;
};

class CsvTable {
 public:
  CsvTable() = default;
  CsvTable(std::string path, std::string header) : path_(std::move(path)), header_(std::move(header)) {}

  // What the file holds; nothing where it is another table, or none. The last block may be torn.
  std::vector<CsvBlock> blocks() const;
  // Leaves these blocks of the file, in this order, and goes on behind them. Errors: kSystem.
  Status open(const std::vector<CsvBlock>& kept);
  // Written when it returns, unless the disk is full: see close(). Returns the block's digest.
  std::string add(std::string_view lines);
  Status close();

 private:
  std::string path_, header_;
  std::ofstream file_;
};

// A field as RFC 4180 has it: quoted where it must be.
std::string csv_field(std::string_view text);

}  // namespace orrery::sim
