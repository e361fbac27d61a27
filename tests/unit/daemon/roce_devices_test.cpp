#include "agent/daemon/roce_devices.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/fakes/scratch_directory.h"

using namespace orrery;
using daemon::find_roce_devices;

namespace {

namespace fs = std::filesystem;

// A copy of what the kernel shows of RDMA devices.
struct Sysfs {
  test::ScratchDirectory scratch;
  fs::path root = scratch.file("infiniband");

  void gid(const std::string& device, int port, int place, const std::string& gid, const std::string& type) {
    const fs::path at = root / device / "ports" / std::to_string(port);
    fs::create_directories(at / "gids");
    fs::create_directories(at / "gid_attrs" / "types");
    std::ofstream(at / "gids" / std::to_string(place)) << gid << "\n";
    std::ofstream(at / "gid_attrs" / "types" / std::to_string(place)) << type << "\n";
  }
};

constexpr const char* kNone = "0000:0000:0000:0000:0000:0000:0000:0000";
constexpr const char* kOwnGid = "0000:0000:0000:0000:0000:ffff:0a00:0001";
const std::vector<IpAddress> kOwn = {IpAddress::parse("10.0.0.1").value()};

}  // namespace

TEST_CASE("a device with a RoCEv2 entry for the host's address is found, whatever lies before it") {
  Sysfs sysfs;
  sysfs.gid("rxe1", 1, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1");
  sysfs.gid("rxe1", 1, 1, kNone, "");
  sysfs.gid("rxe1", 1, 2, kOwnGid, "RoCE v2");
  sysfs.gid("mlx5_0", 1, 0, kNone, "");
  sysfs.gid("mlx5_0", 2, 0, kOwnGid, "RoCE v2");
  CHECK(find_roce_devices(sysfs.root, kOwn) == std::vector<std::string>{"mlx5_0", "rxe1"});
}

TEST_CASE("devices of other hosts on this machine, RoCEv1 and InfiniBand do not count") {
  Sysfs sysfs;
  sysfs.gid("rxe2", 1, 0, "0000:0000:0000:0000:0000:ffff:0a00:0002", "RoCE v2");
  sysfs.gid("mlx4_0", 1, 0, kOwnGid, "IB/RoCE v1");
  sysfs.gid("ib0", 1, 0, "fe80:0000:0000:0000:0002:c903:0000:0001", "");
  CHECK(find_roce_devices(sysfs.root, kOwn).empty());
}

TEST_CASE("a machine without RDMA has no devices, and garbage is none") {
  Sysfs sysfs;
  CHECK(find_roce_devices(sysfs.root, kOwn).empty());
  sysfs.gid("odd", 1, 0, "what", "ever");
  fs::create_directories(sysfs.root / "empty");
  CHECK(find_roce_devices(sysfs.root, kOwn).empty());
  CHECK(find_roce_devices(sysfs.root, {}).empty());
}
