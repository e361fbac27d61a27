// docs/reference/orreryctl.md and docs/reference/man/orreryctl.1 say what the binary says. With ORRERY_UPDATE_GOLDEN=1
// in the environment they are rewritten instead of compared.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tools/ctl/cli.h"

namespace orrery::ctl {
namespace {

std::string reference_page() {
  std::string page =
      "# orreryctl\n\n"
      "Made from the help texts by `ORRERY_UPDATE_GOLDEN=1 build/dev/test/ctl_test`; a test compares them. Options of "
      "`orreryctl` itself may stand\n"
      "before or after the command. Errors go to standard error; colour is used only on a terminal, and not when "
      "`NO_COLOR` is set.\n";
  for (const CommandHelp& help : all_help())
    page +=
        fmt::format("\n## orreryctl{}{}\n\n```text\n{}```\n", help.command.empty() ? "" : " ", help.command, help.text);
  return page;
}

// Text as troff shows it unchanged.
std::string troff(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

std::string man_page() {
  std::string page =
      ".TH ORRERYCTL 1 \"\" Orrery\n.SH NAME\norreryctl \\- see what an Orrery fabric plans and does, and work with "
      "topology files\n"
      ".SH SYNOPSIS\n.B orreryctl\n[OPTIONS] NOUN VERB [ARGUMENTS]\n.SH COMMANDS\n";
  for (const CommandHelp& help : all_help())
    page += fmt::format(".SS orreryctl {}\n.nf\n{}.fi\n", troff(help.command), troff(help.text));
  return page +
         ".SH ENVIRONMENT\n.TP\n.B ORRERY_CONTROLLER\nEndpoint of the controller's control socket, when "
         "\\-\\-controller is not given.\n"
         ".TP\n.B NO_COLOR\nWhen set, no colour.\n.SH EXIT STATUS\n0 success; 1 failure, or what was named is not "
         "there; 2 wrong usage or bad "
         "input; 3 no answer from the controller.\n";
}

void compare(const std::string& path, const std::string& expected) {
  if (std::getenv("ORRERY_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << expected;
    return;
  }
  std::ifstream file(path);
  const std::string actual{std::istreambuf_iterator<char>(file), {}};
  INFO(path << " differs from the help texts; rewrite it with ORRERY_UPDATE_GOLDEN=1 build/dev/test/ctl_test");
  CHECK(actual == expected);
}

}  // namespace

TEST_CASE("the reference page is what --help prints") {
  compare(std::string(ORRERY_REFERENCE) + "/orreryctl.md", reference_page());
}

TEST_CASE("the man page is what --help prints") {
  compare(std::string(ORRERY_REFERENCE) + "/man/orreryctl.1", man_page());
}

TEST_CASE("the help texts that the pages are made from are those that the binary prints") {
  for (const CommandHelp& help : all_help()) {
    std::vector<std::string> words;
    std::istringstream stream(help.command);
    for (std::string word; stream >> word;) words.push_back(word);
    words.push_back("--help");
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    CHECK(run(words, console) == kOk);
    CHECK(out.str() == help.text);
  }
}

}  // namespace orrery::ctl
