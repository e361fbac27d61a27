// Golden reference pages: text that a program generates, kept under docs/reference/. A difference means that a user
// sees something else than documented: look at it, then run the test with ORRERY_UPDATE_GOLDEN=1 to accept it.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace orrery::test {

inline void check_reference_page(const std::string& name, const std::string& generated) {
  const std::string path = std::string(ORRERY_SOURCE) + "/docs/reference/" + name;
  if (std::getenv("ORRERY_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << generated;
  std::ifstream file(path);
  const std::string kept{std::istreambuf_iterator<char>(file), {}};
  INFO(path << " is not what the program says; ORRERY_UPDATE_GOLDEN=1 writes it anew");
  CHECK(kept == generated);
}

}  // namespace orrery::test
