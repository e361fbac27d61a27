"""Runs the tools the lab is made of (ip, tc, ethtool) and turns their failures into LabError."""

import subprocess

from .errors import LabError


def run(argv, stdin=None, timeout_s=60):
    """Standard output of `argv`. Raises LabError with the tool's own words when it fails."""
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not installed", "run tools/setup, which installs what the lab needs") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv)} did not end within {timeout_s} s") from None
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        raise LabError(f"{' '.join(argv[:8])} failed:\n    " + "\n    ".join(words[:40]))
    return done.stdout


def succeeds(argv):
    """Whether `argv` can be run and exits 0."""
    try:
        return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def ip_batch(lines, netns=None):
    _batch(["ip"], lines, netns)


def tc_batch(lines, netns=None):
    _batch(["tc"], lines, netns)


def _batch(tool, lines, netns):
    if lines:
        run(tool + (["-n", netns] if netns else []) + ["-batch", "-"], stdin="\n".join(lines) + "\n")
