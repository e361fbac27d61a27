#include "common/msg/security.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/fakes/scratch_directory.h"

using namespace orrery;
using namespace orrery::msg;

namespace {
void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}
}  // namespace

TEST_CASE("a generated key pair survives its files, and the public file has no secret") {
  test::ScratchDirectory directory;
  const CurveKeys keys = *generate_keys();
  REQUIRE(write_key_files(directory.file("k"), keys));
  const CurveKeys pair = *read_key_file(directory.file("k"));
  CHECK(pair.public_key == keys.public_key);
  CHECK(pair.secret_key == keys.secret_key);
  const CurveKeys half = *read_key_file(directory.file("k.pub"));
  CHECK(half.public_key == keys.public_key);
  CHECK(half.secret_key.empty());
}

TEST_CASE("writing keys never overwrites a file") {
  test::ScratchDirectory directory;
  write(directory.file("k"), "precious");
  const Status status = write_key_files(directory.file("k"), *generate_keys());
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ErrorCode::kRefused);
}

TEST_CASE("a secret that others may read is refused with the cure") {
  test::ScratchDirectory directory;
  REQUIRE(write_key_files(directory.file("k"), *generate_keys()));
  ::chmod(directory.file("k").c_str(), 0644);
  const auto keys = read_key_file(directory.file("k"));
  REQUIRE_FALSE(keys);
  CHECK(keys.error().message.find("chmod 600") != std::string::npos);
}

TEST_CASE("mistakes in key files and allow-lists are named with their line") {
  test::ScratchDirectory directory;
  write(directory.file("bad"), "# comment\npublic-key: tooshort\n");
  CHECK(read_key_file(directory.file("bad")).error().message.find("bad:2:") != std::string::npos);
  write(directory.file("unknown"), "private-key: x\n");
  CHECK(read_key_file(directory.file("unknown")).error().message.find("unknown:1:") != std::string::npos);
  write(directory.file("empty"), "\n");
  CHECK(read_key_file(directory.file("empty")).error().message.find("orreryctl key generate") != std::string::npos);
  CHECK_FALSE(read_key_file(directory.file("absent")));
  const CurveKeys keys = *generate_keys();
  write(directory.file("allow"), "# hosts\n" + keys.public_key + "  h1\n");
  CHECK(*read_allow_list(directory.file("allow")) == std::vector<std::string>{keys.public_key});
  write(directory.file("allow"), keys.public_key + "\nnonsense h2\n");
  CHECK(read_allow_list(directory.file("allow")).error().message.find("allow:2:") != std::string::npos);
}

TEST_CASE("plain is for endpoints no other machine can reach, unless allowed in so many words") {
  const Endpoint local = *parse_endpoint("k", "tcp://127.0.0.1:7000");
  const Endpoint open = *parse_endpoint("k", "tcp://0.0.0.0:7000");
  Security security;
  CHECK(check_security("k", local, security));
  const Status refused = check_security("agents.endpoint", open, security);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kRefused);
  for (const char* word : {"agents.endpoint", "security.mode", "security.allow_plain"})
    CHECK(refused.error().message.find(word) != std::string::npos);
  security.allow_plain = true;
  CHECK(check_security("k", open, security));
  security = {.curve = true};
  CHECK(check_security("k", open, security));
}

TEST_CASE("security settings are checked and the keys loaded") {
  test::ScratchDirectory directory;
  REQUIRE(write_key_files(directory.file("server"), *generate_keys()));
  REQUIRE(write_key_files(directory.file("client"), *generate_keys()));
  CHECK_FALSE(load_security({})->curve);
  CHECK(load_security({.mode = "curv"}).error().message.find("did you mean 'curve'") != std::string::npos);
  CHECK(load_security({.mode = "curve"}).error().message.find("security.key_file") != std::string::npos);
  CHECK(load_security({.mode = "curve", .key_file = directory.file("client.pub")})
            .error()
            .message.find("no secret key") != std::string::npos);
  const auto security = load_security(
      {.mode = "curve", .key_file = directory.file("client"), .server_key_file = directory.file("server.pub")});
  REQUIRE(security);
  CHECK(security->curve);
  CHECK(security->server_public_key == read_key_file(directory.file("server"))->public_key);
}
