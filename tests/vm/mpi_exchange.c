/* mpi_exchange ROUNDS BYTES: two ranks send each other messages in turn and check every byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void fill(unsigned char* data, int bytes, int round) {
  for (int i = 0; i < bytes; i++) data[i] = (unsigned char)(i * 7 + round);
}

static long wrong_bytes(const unsigned char* data, int bytes, int round) {
  long wrong = 0;
  for (int i = 0; i < bytes; i++) wrong += data[i] != (unsigned char)(i * 7 + round);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, status = 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc == 3 && size == 2) {
    const int rounds = atoi(argv[1]), bytes = atoi(argv[2]);
    unsigned char* data = malloc((size_t)bytes);
    long wrong = 0;
    for (int round = 0; round < 2 * rounds; round++) {
      if (round % 2 == rank) {
        fill(data, bytes, round);
        MPI_Send(data, bytes, MPI_BYTE, 1 - rank, round, MPI_COMM_WORLD);
      } else {
        MPI_Recv(data, bytes, MPI_BYTE, 1 - rank, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wrong += wrong_bytes(data, bytes, round);
      }
    }
    free(data);
    long all = 0;
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld bytes wrong\n", all);
    MPI_Bcast(&all, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    status = all != 0;
  }
  MPI_Finalize();
  return status;
}
