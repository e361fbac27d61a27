"""Network namespaces by name: list, enter, and open a namespace's files under /proc/net."""

import ctypes
import os

NETNS_DIR = "/run/netns"
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def names(prefix=""):
    """Named namespaces that start with `prefix`, sorted."""
    try:
        return sorted(n for n in os.listdir(NETNS_DIR) if n.startswith(prefix))
    except FileNotFoundError:
        return []


def _setns(descriptor):
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "setns")


class Entered:
    """`with Entered(name):` the calling thread is in that namespace until the block ends; None: it stays where it is."""

    def __init__(self, name):
        self._name = name
        self._home = -1

    def __enter__(self):
        if self._name is None:
            return self
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            there = os.open(os.path.join(NETNS_DIR, self._name), os.O_RDONLY)
            try:
                _setns(there)
            finally:
                os.close(there)
        except OSError:
            os.close(self._home)
            raise
        return self

    def __exit__(self, *_):
        if self._name is None:
            return
        try:
            _setns(self._home)
        finally:
            os.close(self._home)


def enter_forever(name):
    """For a child process before exec: its network namespace becomes `name`."""
    descriptor = os.open(os.path.join(NETNS_DIR, name), os.O_RDONLY)
    _setns(descriptor)
    os.close(descriptor)


def pids_inside(name):
    """Processes whose network namespace is `name`."""
    try:
        wanted = os.stat(os.path.join(NETNS_DIR, name))
    except OSError:
        return []
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            there = os.stat(f"/proc/{entry}/ns/net")
        except OSError:
            continue
        if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(int(entry))
    return found
