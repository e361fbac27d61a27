#include "agent/daemon/roce_devices.h"

#include <algorithm>
#include <fstream>

namespace orrery::daemon {
namespace {

namespace fs = std::filesystem;

// GID tables have up to 1024 places and are filled from the front, with few holes; a look at every place of every
// device would cost a second.
constexpr int kPlaces = 1024;
constexpr int kHoles = 16;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "0000:0000:0000:0000:0000:ffff:0a00:0001"; nothing for an empty place.
IpAddress read_gid(const fs::path& path) {
  const auto gid = IpAddress::parse(first_line(path));
  return gid ? *gid : IpAddress();
}

bool port_has(const fs::path& port, const std::vector<IpAddress>& addresses) {
  int holes = 0;
  for (int place = 0; place < kPlaces && holes < kHoles; ++place) {
    const std::string name = std::to_string(place);
    const IpAddress gid = read_gid(port / "gids" / name);
    holes = gid.is_unspecified() ? holes + 1 : 0;
    const bool known = !gid.is_unspecified() && std::find(addresses.begin(), addresses.end(), gid) != addresses.end();
    if (known && first_line(port / "gid_attrs" / "types" / name) == "RoCE v2") return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> find_roce_devices(const fs::path& class_path, const std::vector<IpAddress>& addresses) {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& device : fs::directory_iterator(class_path, error)) {
    std::error_code no_ports;
    for (const fs::directory_entry& port : fs::directory_iterator(device.path() / "ports", no_ports)) {
      if (!port_has(port.path(), addresses)) continue;
      found.push_back(device.path().filename());
      break;
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace orrery::daemon
