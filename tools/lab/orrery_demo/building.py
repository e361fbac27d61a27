"""From a fresh clone to programs that run: installs what is missing, builds the release preset, shows how far it is."""

import os
import re
import subprocess

from orrery_lab.errors import LabError
from orrery_lab.programs import REPOSITORY, Programs

TARGETS = ["orreryctl", "orrery-switch", "orrery-agent", "orrery-controller", "orrery-bench", "hostnccl", "orrery_preload"]
NINJA_LINE = re.compile(r"\[(\d+)/(\d+)\]")


def prepare(progress, targets=TARGETS):
    """Programs of build/release, `targets` up to date."""
    progress.step("checking packages")
    _stream([os.path.join(REPOSITORY, "tools", "setup"), "--quiet"], lambda line: progress.line("  " + line), "installing packages")
    folder = os.path.join(REPOSITORY, "build", "release")
    log = os.path.join(REPOSITORY, "build", "release-build.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        progress.step("configuring the build")
        _stream(["cmake", "--preset", "release"], lambda line: None, "configuring", log)
    progress.step("building")

    def show(line):
        at = NINJA_LINE.match(line)
        if at and at.group(2) != "0":
            progress.update(f"building, step {at.group(1)} of {at.group(2)}")

    _stream(["ninja", "-C", folder, *targets], show, "building", log)
    return Programs(folder)


def _stream(argv, show, what, log=None):
    """Runs `argv`, hands every line to `show`; on failure the error carries its last lines."""
    lines = []
    environment = dict(os.environ, NINJA_STATUS="[%f/%t] ")
    try:
        with subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", env=environment) as child:
            try:
                for line in child.stdout:
                    lines.append(line.rstrip())
                    show(lines[-1])
            except BaseException:
                child.terminate()
                raise
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not installed", "run tools/setup as root") from None
    if log:
        with open(log, "a", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
    if child.returncode != 0:
        raise LabError(f"{what} failed; the last lines:\n    " + "\n    ".join(lines[-12:]), f"all of it: {log}" if log else "cure that and run again")
