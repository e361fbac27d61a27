// orreryctl key generate: CURVE key pairs for controller, agents, switches and operators (no controller needed).
#include <fmt/format.h>
#include <fmt/ostream.h>

#include "common/msg/security.h"
#include "tools/ctl/command.h"

namespace orrery::ctl {
namespace {

int generate(Console& console, const std::string& path) {
  const auto keys = msg::generate_keys();
  if (!keys) return report(console, keys.error());
  if (Status written = msg::write_key_files(path, *keys); !written) return report(console, written.error());
  fmt::print(console.out,
             "{0}      the pair: security.key_file of its owner; keep it secret\n"
             "{0}.pub  the public half: security.server_key_file of the peers, when the owner is the controller\n"
             "\nFor the controller's security.allow_list_file, when the owner is a peer:\n{1}  NAME\n",
             path, keys->public_key);
  return kOk;
}

}  // namespace

void add_key_commands(Session& session) {
  CLI::App* key = session.app.add_subcommand("key", "Make CURVE keys for encrypted connections (no controller needed)");
  key->require_subcommand(1);
  CLI::App* app = key->add_subcommand("generate", "Write a new key pair to FILE and its public half to FILE.pub");
  auto file = std::make_shared<std::string>();
  app->add_option("FILE", *file, "File for the pair; an existing one is never overwritten")->required();
  app->callback([&session, file] { session.action = [&session, file] { return generate(session.console, *file); }; });
}

}  // namespace orrery::ctl
