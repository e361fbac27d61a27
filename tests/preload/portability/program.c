/* A training program in small, for any C library of the last twenty years: NCCL (linked, or with OPENS_NCCL opened and
 * looked up), sockets, threads and children. Prints what it sees. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

typedef struct {
  char internal[128];
} ncclUniqueId;

#define NCCL_FUNCTIONS(X)                                    \
  X(ncclGetVersion, int, (int*))                             \
  X(ncclGetUniqueId, int, (ncclUniqueId*))                   \
  X(ncclCommInitRank, int, (void**, int, ncclUniqueId, int)) \
  X(ncclCommDestroy, int, (void*))                           \
  X(ncclGroupStart, int, (void))                             \
  X(ncclGroupEnd, int, (void))                               \
  X(ncclAllReduce, int, (const void*, void*, unsigned long, int, int, void*, void*))

#ifdef OPENS_NCCL
#define DECLARE(name, result, arguments) static result(*name) arguments;
NCCL_FUNCTIONS(DECLARE)

static void open_nccl(void) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW);
  if (library == NULL) {
    puts(dlerror());
    exit(2);
  }
#define FIND(name, result, arguments) *(void**)&name = dlsym(library, #name);
  NCCL_FUNCTIONS(FIND)
  printf("lacks %d\n", dlsym(library, "ncclCommSplit") == NULL);
}
#else
#define DECLARE(name, result, arguments) result name arguments;
NCCL_FUNCTIONS(DECLARE)
static void open_nccl(void) {
  void* program = dlopen(NULL, RTLD_NOW);
  printf("lacks %d\n", program == NULL || dlsym(program, "ncclCommSplit") == NULL);
}
#endif

static void wait_for_agent(void) {
  ncclUniqueId id;
  char line;
  memset(&id, 0, sizeof(id));
  ncclCommInitRank(NULL, 0, id, 0);
  puts("ready");
  fflush(NULL);
  if (read(0, &line, 1) == 1) ncclCommInitRank(NULL, 0, id, 0);
}

static void use_nccl(void) {
  ncclUniqueId id;
  void* comm = NULL;
  int version = 0;
  printf("version %d", ncclGetVersion(&version));
  printf(" %d\n", version);
  ncclGetUniqueId(&id);
  printf("init %d\n", ncclCommInitRank(&comm, 4, id, 1));
  for (int i = 0; i < 5; ++i) ncclAllReduce(NULL, NULL, 1000, 7, 0, comm, NULL);
  ncclGroupStart();
  ncclAllReduce(NULL, NULL, 1000, 7, 0, comm, NULL);
  ncclGroupEnd();
  printf("calls %d\n", ncclCommDestroy(comm));
}

static void* serve(void* listener) {
  char bytes[4096];
  long total = 0, got;
  const int fd = accept(*(int*)listener, NULL, NULL);
  while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0) total += got;
  close(fd);
  return (void*)total;
}

static void use_sockets(void) {
  struct sockaddr_in address;
  socklen_t length = sizeof(address);
  pthread_t thread;
  void* received;
  static char bytes[100000];
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  memset(&address, 0, sizeof(address));
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x7f000001);
  printf("listen %d", bind(listener, (struct sockaddr*)&address, sizeof(address)));
  printf(" %d\n", listen(listener, 1));
  getsockname(listener, (struct sockaddr*)&address, &length);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);  // before the other thread takes a number
  pthread_create(&thread, NULL, serve, &listener);
  printf("connect %d on %d\n", connect(fd, (struct sockaddr*)&address, sizeof(address)), fd);
  long sent = 0;
  while (sent < (long)sizeof(bytes)) {
    const long one = send(fd, bytes, sizeof(bytes) - (unsigned long)sent, 0);
    if (one <= 0) break;
    sent += one;
  }
  close(fd);
  pthread_join(thread, &received);
  printf("sent %ld received %ld\n", sent, (long)received);
  close(listener);
  printf("connect to nobody %d", connect(listener, (struct sockaddr*)&address, sizeof(address)));
  printf(" %d\n", errno == EBADF);
}

static int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void use_children(void) {
  char* arguments[] = {(char*)"/bin/sh", (char*)"-c", (char*)"exit 7", NULL};
  pid_t child;
  fflush(NULL);
  child = fork();
  if (child == 0) {
    use_nccl();
    fflush(NULL);
    _exit(5);
  }
  printf("fork %d\n", status_of(child));
  child = vfork();
  if (child == 0) {
    execve(arguments[0], arguments, environ);
    _exit(1);
  }
  printf("vfork %d\n", status_of(child));
  printf("spawn %d", posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ));
  printf(" %d\n", status_of(child));
}

/* Which names a lookup in the whole program finds. */
static void look_up(char** names) {
  for (; *names != NULL; ++names) printf("%s %d\n", *names, dlsym(RTLD_DEFAULT, *names) != NULL);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "names-first") == 0) look_up(argv + 2);
  open_nccl();
  if (argc > 1 && strcmp(argv[1], "names") == 0) look_up(argv + 2);
  if (getenv("PROBE_WAITS_FOR_AGENT") != NULL) wait_for_agent();
  use_nccl();
  use_sockets();
  use_children();
  if (argc > 1 && strcmp(argv[1], "exec") == 0) {
    char* arguments[] = {argv[0], NULL};
    fflush(NULL);
    execve(argv[0], arguments, environ);
  }
  return 3;
}
