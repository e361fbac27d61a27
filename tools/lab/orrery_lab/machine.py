"""The machine the numbers come from, and whether its processors were ever the bottleneck."""

import os
import platform
import re
import time

BUSY_LIMIT = 0.85  # above this share the emulated links may not have been the bottleneck


def describe():
    return {"processors": os.cpu_count(), "model": _cpu_model(), "memory_bytes": _memory_bytes(),
            "kernel": platform.release(), "system": _system_name()}


def _cpu_model():
    match = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def _memory_bytes():
    match = re.search(r"^MemTotal:\s*(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def _system_name():
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', _text("/etc/os-release"), re.MULTILINE)
    return match.group(1) if match else platform.system()


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""


class CpuMeter:
    """Share of all processors that was busy between samples; about one sample a second makes a maximum meaningful."""

    def __init__(self):
        self.shares = []  # (wall clock at the end, share)
        self._last = _ticks()
        self._at = time.monotonic()

    def sample(self, shortest_s=0.8):
        """Takes a sample unless the last was less than `shortest_s` ago."""
        if time.monotonic() - self._at < shortest_s:
            return
        busy, total = _ticks()
        if total > self._last[1]:
            self.shares.append((time.time(), (busy - self._last[0]) / (total - self._last[1])))
        self._last = (busy, total)
        self._at = time.monotonic()

    def mean_and_max(self, start=0.0, end=float("inf")):
        """Over the samples that ended between two moments of the wall clock."""
        shares = [share for at, share in self.shares if start <= at <= end]
        return (sum(shares) / len(shares), max(shares)) if shares else (0.0, 0.0)


def _ticks():
    fields = [int(f) for f in _text("/proc/stat").splitlines()[0].split()[1:9]]  # user nice system idle iowait irq softirq steal
    return sum(fields) - fields[3] - fields[4], sum(fields)
