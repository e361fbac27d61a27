#include "tools/preload_check/inspect.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/preload_check/elf_file.h"
#include "tools/preload_check/run_command.h"

namespace orrery::preload_check {
namespace {

namespace fs = std::filesystem;

constexpr int kMostInterpreters = 4;  // as the kernel
constexpr std::array kLoaderPlaces{"/lib", "/usr/lib", "/nix/store/"};
const std::string kLibraryName = "liborrery_preload.so";

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() ? found->second : "";
}

bool is_set(const std::string& value) {
  return !value.empty() && value != "0";
}

std::vector<std::string> split(const std::string& text, const char* separators) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string file_name(const std::string& path) {
  return fs::path(path).filename();
}

bool is_nccl_library(const std::string& name) {
  return name.starts_with("libnccl.so") || name.starts_with("librccl.so");
}

Result<std::string> find_program(const std::string& name, const Environment& environment) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos)
    candidates.push_back(name);
  else
    for (const std::string& folder : split(value_of(environment, "PATH"), ":"))
      candidates.push_back(folder + "/" + name);
  for (const std::string& path : candidates) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) continue;
    if (access(path.c_str(), X_OK) == 0) return path;
    return Error{ErrorCode::kInvalidArgument, path + ": not executable"};
  }
  return Error{ErrorCode::kNotFound, name + ": no such program"};
}

// The program of a "#!" line; empty for anything else.
std::string interpreter_of_script(const std::string& path, const Environment& environment) {
  std::ifstream file(path);
  std::string line;
  if (file.get() != '#' || file.get() != '!' || !std::getline(file, line)) return "";
  std::vector<std::string> words = split(line, " \t");
  if (!words.empty() && file_name(words[0]) == "env") {
    words.erase(words.begin());
    while (!words.empty() && (words[0].starts_with("-") || words[0].find('=') != std::string::npos))
      words.erase(words.begin());
    if (words.empty()) return "";
    const auto found = find_program(words[0], environment);
    return found ? *found : words[0];
  }
  return words.empty() ? "" : words[0];
}

Libc libc_of(const ElfFile& program) {
  if (program.interpreter.empty()) return Libc::kNone;
  const std::string loader = file_name(program.interpreter);
  if (loader.starts_with("ld-musl")) return Libc::kMusl;
  return loader.starts_with("ld-linux") || loader.starts_with("ld64") || loader.starts_with("ld-2") ? Libc::kGlibc
                                                                                                    : Libc::kUnknown;
}

bool is_privileged(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return false;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return true;
  if ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// What the program's own loader would load, as "name => path" lines say. Nothing of the program runs: each loader, when
// started as a program itself, has a way to be asked.
void list_libraries(const ElfFile& program, Libc libc, std::vector<std::string>& libraries,
                    std::vector<std::string>& missing) {
  // A loader in a place of its own could be anything.
  const bool trusted = std::any_of(kLoaderPlaces.begin(), kLoaderPlaces.end(),
                                   [&](const char* place) { return program.interpreter.starts_with(place); });
  if (!trusted) return;
  const std::string path = fs::absolute(program.path);
  const auto output = libc == Libc::kMusl ? run_command({program.interpreter, "--list", path})
                                          : run_command({program.interpreter, path}, "LD_TRACE_LOADED_OBJECTS=1");
  if (!output) {  // musl's loader fails when anything is missing; the names are all there is then
    for (const std::string& name : program.needed)
      if (!name.starts_with("libc.")) missing.push_back(name);
    return;
  }
  std::istringstream lines(*output);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = split(line, " \t");
    if (words.size() >= 3 && words[1] == "=>") {
      if (words[2] == "not")
        missing.push_back(words[0]);
      else
        libraries.push_back(words[2]);
    }
  }
}

// Where the machine's loader finds a library; empty when it does not.
std::string locate(const std::string& library, const Environment& environment) {
  for (const std::string& folder : split(value_of(environment, "LD_LIBRARY_PATH"), ":"))
    if (fs::exists(folder + "/" + library)) return folder + "/" + library;
  for (const char* ldconfig : {"/sbin/ldconfig", "/usr/sbin/ldconfig"}) {
    const auto cache = run_command({ldconfig, "-p"});
    if (!cache) continue;
    std::istringstream lines(*cache);
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> words = split(line, " \t");
      if (words.size() >= 3 && words.front() == library) return words.back();
    }
    break;
  }
  return "";
}

struct Mentions {
  bool nccl_texts, opens_nccl, opens_verbs, has_profiler;
};

Mentions mentions_in(const std::string& path) {
  const std::vector<bool> found =
      find_texts(path, {"NCCL version ", "libnccl.so", "librccl.so", "libibverbs.so", "NCCL_PROFILER_PLUGIN"});
  return {found[0], found[1] || found[2], found[3], found[4]};
}

void note_nccl(Findings& found, NcclReach reach, const std::string& path, bool has_profiler) {
  // What is surest comes first in the order of Findings' enumeration, so what is known already stays.
  const NcclReach known = found.nccl.reach;
  if (known != NcclReach::kNone && known <= reach) return;
  found.nccl = {reach, path, 0, has_profiler};
}

void look_at_object(const std::string& path, Findings& found) {
  const auto object = read_elf(path);
  if (!object) return;
  const std::string name = file_name(path);
  if (name == kLibraryName || name.starts_with("libc.so") || name.starts_with("ld-")) return;
  for (const std::string& needed : object->needed) {
    if (is_nccl_library(needed) && found.nccl.reach != NcclReach::kLinked)
      found.nccl = {NcclReach::kLinked, needed, 0, true};
    if (needed.starts_with("libibverbs.so")) found.verbs = VerbsReach::kLinked;
    if (needed.starts_with("libasan.so")) found.sanitized = true;
  }
  const Mentions mentions = mentions_in(path);
  if (is_nccl_library(name)) {
    found.nccl = {NcclReach::kLinked, path, ask_nccl_version(path), mentions.has_profiler};
  } else if (object->defines("ncclAllReduce")) {
    note_nccl(found, NcclReach::kExported, path, mentions.has_profiler);
  } else if (mentions.nccl_texts && mentions.has_profiler) {
    note_nccl(found, NcclReach::kHidden, path, mentions.has_profiler);
  } else if (mentions.opens_nccl) {
    note_nccl(found, NcclReach::kOpened, path, true);
  }
  const bool is_verbs = name.starts_with("libibverbs.so");
  if (found.verbs == VerbsReach::kNone && mentions.opens_verbs && !is_verbs) found.verbs = VerbsReach::kOpened;
}

// Why the library cannot be loaded into the program; empty when it can.
std::string fault_of_library(const std::string& library, const ElfFile& program) {
  const auto ours = read_elf(library);
  if (!ours) return ours.error().message;
  if (ours->machine != program.machine || ours->is_64_bit != program.is_64_bit)
    return "the program is for another machine than " + library;
  if (library.find_first_of(": \t") != std::string::npos)
    return "the library's path has a colon or a blank, which LD_PRELOAD cannot carry: " + library;
  return "";
}

std::string find_library(const InspectionRequest& request, const std::vector<std::string>& preloaded) {
  if (!request.library.empty()) return fs::absolute(request.library).lexically_normal();
  for (const std::string& path : preloaded)
    if (file_name(path) == kLibraryName) return path;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"../lib", "../lib/orrery", "."}) {
    const fs::path path = (folder / place / kLibraryName).lexically_normal();
    if (fs::exists(path, error)) return path;
  }
  return "";
}

void look_at_environment(const InspectionRequest& request, Findings& found) {
  const Environment& environment = request.environment;
  const std::vector<std::string> preloaded = split(value_of(environment, "LD_PRELOAD"), ": ");
  found.library = find_library(request, preloaded);
  found.preload_is_set = std::any_of(preloaded.begin(), preloaded.end(),
                                     [](const std::string& path) { return file_name(path) == kLibraryName; });
  found.sanitizer_first = !preloaded.empty() && file_name(preloaded[0]).starts_with("libasan.so");
  found.disabled = is_set(value_of(environment, "ORRERY_DISABLE"));
  found.profiler_disabled = value_of(environment, "ORRERY_PROFILER") == "0";
  found.profiler_plugin = value_of(environment, "NCCL_PROFILER_PLUGIN");
  found.profiler_is_ours = found.profiler_plugin == "STATIC_PLUGIN" || file_name(found.profiler_plugin) == kLibraryName;
  found.verbs_library = value_of(environment, "NCCL_IBVERBS_LIB");
  if (found.verbs_library.empty()) found.verbs_library = locate("libibverbs.so.1", environment);
}

void look_at_machine(Findings& found) {
  std::error_code error;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", error))
    found.rdma_devices.push_back(device.path().filename());
  std::sort(found.rdma_devices.begin(), found.rdma_devices.end());
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Seccomp:")) found.seccomp_mode = std::atoi(line.c_str() + 8);
}

}  // namespace

Result<Findings> inspect(const InspectionRequest& request) {
  Findings found;
  ORRERY_ASSIGN(found.program, find_program(request.program, request.environment));
  Result<ElfFile> program = read_elf(found.program);
  for (int i = 0; !program && i < kMostInterpreters; ++i) {
    const std::string interpreter = interpreter_of_script(found.program, request.environment);
    if (interpreter.empty()) return Error{ErrorCode::kInvalidArgument, program.error().message + " and no script"};
    if (found.script.empty()) found.script = found.program;
    found.program = interpreter;
    program = read_elf(interpreter);
  }
  if (!program) return program.error();
  found.libc = libc_of(*program);
  found.privileged = is_privileged(found.program);
  look_at_environment(request, found);
  look_at_machine(found);
  if (!found.library.empty()) found.library_fault = fault_of_library(found.library, *program);
  std::vector<std::string> libraries;
  if (found.libc == Libc::kGlibc || found.libc == Libc::kMusl)
    list_libraries(*program, found.libc, libraries, found.missing_libraries);
  look_at_object(found.program, found);
  for (const std::string& library : libraries) look_at_object(library, found);
  return found;
}

}  // namespace orrery::preload_check
