#include "tools/preload_check/elf_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/unique_fd.h"

namespace orrery::preload_check {
namespace {

struct EndElf {
  void operator()(Elf* elf) const { elf_end(elf); }
};

void read_interpreter(Elf* elf, ElfFile& file) {
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr part;
    if (gelf_getphdr(elf, static_cast<int>(i), &part) == nullptr) continue;
    if (part.p_type == PT_DYNAMIC) file.is_dynamic = true;
    if (part.p_type != PT_INTERP) continue;
    size_t bytes = 0;
    const char* raw = elf_rawfile(elf, &bytes);
    if (raw != nullptr && part.p_offset < bytes && part.p_filesz <= bytes - part.p_offset)
      file.interpreter.assign(raw + part.p_offset, strnlen(raw + part.p_offset, part.p_filesz));
  }
}

void read_needed(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, ElfFile& file) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  for (size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
    GElf_Dyn entry;
    if (gelf_getdyn(data, static_cast<int>(i), &entry) == nullptr) return;
    if (entry.d_tag != DT_NEEDED) continue;
    const char* name = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
    if (name != nullptr) file.needed.push_back(name);
  }
}

void read_symbols(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, ElfFile& file) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  for (size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) return;
    const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name == nullptr || (std::strncmp(name, "nccl", 4) != 0 && std::strncmp(name, "ibv_", 4) != 0)) continue;
    (symbol.st_shndx == SHN_UNDEF ? file.undefined : file.defined).push_back(name);
  }
}

}  // namespace

bool ElfFile::defines(const std::string& name) const {
  return std::find(defined.begin(), defined.end(), name) != defined.end();
}

bool ElfFile::refers_to(const std::string& prefix) const {
  return std::any_of(undefined.begin(), undefined.end(),
                     [&](const std::string& name) { return name.starts_with(prefix); });
}

Result<ElfFile> read_elf(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return Error{ErrorCode::kNotFound, path + ": no such file"};
    return system_error(path, errno);
  }
  elf_version(EV_CURRENT);
  const std::unique_ptr<Elf, EndElf> elf(elf_begin(fd.get(), ELF_C_READ, nullptr));
  GElf_Ehdr header;
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF || gelf_getehdr(elf.get(), &header) == nullptr)
    return Error{ErrorCode::kCorrupt, path + ": not an ELF file"};
  ElfFile file;
  file.path = path;
  file.machine = header.e_machine;
  file.is_64_bit = gelf_getclass(elf.get()) == ELFCLASS64;
  read_interpreter(elf.get(), file);
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
    GElf_Shdr about;
    if (gelf_getshdr(section, &about) == nullptr) continue;
    if (about.sh_type == SHT_DYNAMIC) read_needed(elf.get(), section, about, file);
    if (about.sh_type == SHT_DYNSYM) read_symbols(elf.get(), section, about, file);
  }
  return file;
}

std::vector<bool> find_texts(const std::string& path, const std::vector<std::string>& texts) {
  std::vector<bool> found(texts.size(), false);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0 || status.st_size <= 0) return found;
  const auto bytes = static_cast<size_t>(status.st_size);
  void* base = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (base == MAP_FAILED) return found;
  for (size_t i = 0; i < texts.size(); ++i) found[i] = memmem(base, bytes, texts[i].data(), texts[i].size()) != nullptr;
  munmap(base, bytes);
  return found;
}

}  // namespace orrery::preload_check
