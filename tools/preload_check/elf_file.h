// What an ELF file says of itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace orrery::preload_check {

struct ElfFile {
  std::string path;
  uint16_t machine = 0;  // EM_...
  bool is_64_bit = false;
  bool is_dynamic = false;  // has a dynamic section
  std::string interpreter;  // the loader it asks for; empty: none, so nothing reads LD_PRELOAD
  std::vector<std::string> needed;
  std::vector<std::string> defined;    // dynamic symbols that begin with nccl or ibv_
  std::vector<std::string> undefined;  // likewise

  bool defines(const std::string& name) const;
  bool refers_to(const std::string& prefix) const;
};

// Errors: kNotFound, kSystem, kCorrupt (not ELF, or damaged).
Result<ElfFile> read_elf(const std::string& path);

// Which of the texts stand anywhere in the file, in their order. Files that cannot be read hold none.
std::vector<bool> find_texts(const std::string& path, const std::vector<std::string>& texts);

}  // namespace orrery::preload_check
