// Preloaded, it takes thread-local storage out of the stack of every thread, as some programs do.
extern "C" {
__attribute__((visibility("default"), tls_model("initial-exec"))) thread_local char large_tls[200 << 10];
}
