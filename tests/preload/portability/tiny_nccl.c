/* A libnccl.so.2 that needs no C library: it counts and answers. */
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef struct {
  int rank, nranks, calls;
} Comm;

static Comm comms[16];
static int comm_count;

int ncclGetVersion(int* version) {
  *version = 21903;
  return 0;
}
int ncclGetUniqueId(ncclUniqueId* id) {
  for (int i = 0; i < 128; ++i) id->internal[i] = (char)(i * 7 + 1);
  return 0;
}
int ncclCommInitRank(void** comm, int nranks, ncclUniqueId id, int rank) {
  if (comm == 0 || comm_count == 16 || id.internal[127] != (char)(127 * 7 + 1)) return 4;
  comms[comm_count] = (Comm){rank, nranks, 0};
  *comm = &comms[comm_count++];
  return 0;
}
int ncclCommCount(void* comm, int* count) {
  *count = ((Comm*)comm)->nranks;
  return 0;
}
int ncclCommUserRank(void* comm, int* rank) {
  *rank = ((Comm*)comm)->rank;
  return 0;
}
int ncclCommDestroy(void* comm) {
  return ((Comm*)comm)->calls;
}
int ncclGroupStart(void) {
  return 0;
}
int ncclGroupEnd(void) {
  return 0;
}
int ncclAllReduce(const void* send, void* receive, unsigned long count, int type, int op, void* comm, void* stream) {
  (void)send, (void)receive, (void)count, (void)type, (void)op, (void)stream;
  ++((Comm*)comm)->calls;
  return 0;
}
