// A recording LTTng session with a session daemon of its own, apart from any other on the machine, for a program that
// is started with its environment. Ends daemon and session, and removes all files, when it goes.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace orrery::bench {

class LttngSession {
 public:
  LttngSession();
  ~LttngSession();
  LttngSession(const LttngSession&) = delete;
  LttngSession& operator=(const LttngSession&) = delete;

  // Empty when it records; else why not.
  const std::string& fault() const { return fault_; }
  std::vector<std::pair<std::string, std::string>> environment() const;

 private:
  void start();
  bool control(const std::vector<std::string>& arguments);
  std::string home_;
  std::string fault_;
  pid_t daemon_ = -1;
};

// Goes on as a user without rights when this is root: LTTng's daemon of a user is private to its home, root's is the
// machine's.
void leave_root();

}  // namespace orrery::bench
