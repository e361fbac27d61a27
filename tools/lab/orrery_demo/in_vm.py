"""The demo's second half in a virtual machine, for what this machine's kernel lacks: RDMA devices."""

import json
import os
import signal
import subprocess
import sys
import tempfile

from orrery_lab.errors import LabError
from orrery_lab.programs import REPOSITORY

RUN_IN_VM = os.path.join(REPOSITORY, "tests", "vm", "run-in-vm")
DEMO = os.path.join(REPOSITORY, "tools", "demo")
MEMORY_MIB = 2048
LIMIT_S = 3600
NO_VM, TIME_OVER, GUEST_DIED = 77, 124, 125
NOT_PASSED_ON = ("--json", "--report", "--build")


def measure(arguments, programs):
    """Runs the demo with `arguments` in a guest, its progress on our stderr, and returns the results document."""
    with tempfile.TemporaryDirectory(prefix="orrery-demo-vm-") as folder:
        command = [RUN_IN_VM, "--timeout", str(LIMIT_S), "--memory", str(MEMORY_MIB), "--out", folder, sys.executable, "-B", DEMO,
                   *_passed_on(arguments), "--inside", "--build", programs.build_folder, "--json", os.path.join(folder, "results.json")]
        status = _run(command)
        try:
            with open(os.path.join(folder, "results.json"), encoding="utf-8") as results:
                return json.load(results)
        except (OSError, ValueError):
            raise _failure(status) from None


def _passed_on(arguments):
    """`arguments` without those that are about this machine."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument.partition("=")[0] not in NOT_PASSED_ON:
            kept.append(argument)
        skip = not skip and argument in NOT_PASSED_ON
    return kept


def _run(command):
    """Its exit status. The guest ends with us, whatever ends us."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as guest:
        try:
            return guest.wait()
        except BaseException:
            guest.send_signal(signal.SIGTERM)
            guest.wait()
            raise


def _failure(status):
    if status == NO_VM:
        return LabError("no virtual machine can be run here", "the reason is above; tools/setup installs what is needed")
    if status == TIME_OVER:
        return LabError(f"the virtual machine was not done within {LIMIT_S} s", "use fewer seeds or launches, or a faster machine")
    if status == GUEST_DIED:
        return LabError("the virtual machine died", "its last kernel messages are above")
    return LabError(f"the demo in the virtual machine failed with status {status}", "its words are above")
