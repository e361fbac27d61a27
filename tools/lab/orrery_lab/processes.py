"""Processes of a lab: started in a namespace, known by pid and start time, ended for certain."""

import os
import signal
import subprocess
import time

from . import namespace
from .errors import LabError


def start_time(pid):
    """Start of process `pid` in clock ticks since boot; None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def is_alive(pid, started):
    return start_time(pid) == started


def spawn(argv, log_path, netns=None, env=None, cwd=None):
    """Starts `argv` in its own session, output appended to `log_path`. The caller owns the Popen."""
    def prepare():
        if netns:
            namespace.enter_forever(netns)

    with open(log_path, "ab") as log:
        try:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=cwd,
                                    env=env, start_new_session=True, preexec_fn=prepare)
        except (FileNotFoundError, PermissionError) as error:
            raise LabError(f"cannot start {argv[0]}: {error.strerror}", "build it first: cmake --preset release && ninja -C build/release") from None


def _signal(pid, started, number):
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if is_alive(pid, started):
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def end(recorded, grace_s=2.0):
    """Ends processes given as (pid, start time): SIGTERM, then SIGKILL for those still there after `grace_s`."""
    recorded = [r for r in recorded if is_alive(*r)]
    for pid, started in recorded:
        _signal(pid, started, signal.SIGTERM)
    if not _wait_gone(recorded, grace_s):
        for pid, started in recorded:
            _signal(pid, started, signal.SIGKILL)
        _wait_gone(recorded, 5.0)


def _wait_gone(recorded, limit_s):
    deadline = time.monotonic() + limit_s
    while any(is_alive(*r) for r in recorded):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end_inside(netns_names, keep=()):
    """Ends whatever still runs in these namespaces, except `keep` (pids)."""
    pids = {pid for name in netns_names for pid in namespace.pids_inside(name)} - set(keep) - {os.getpid()}
    end([(pid, start_time(pid)) for pid in pids if start_time(pid) is not None], grace_s=0.5)


def last_lines(path, count=12):
    try:
        with open(path, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 16384))
            return log.read().decode(errors="replace").splitlines()[-count:]
    except OSError:
        return []
