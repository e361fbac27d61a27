"""orrery-sim as a function: arguments in, its JSON out, its progress on the way."""

import json
import os
import re
import subprocess
import time

from orrery_lab.errors import LabError

RUN_LINE = re.compile(r"run (\d+) of (\d+): ([^,]+(?:, seed \d+)?)")


class Simulator:
    """Keeps account of what is done of all studies, so that the time left can be told."""

    def __init__(self, program, progress, folder):
        self._program, self._progress, self._folder = program, progress, folder
        self._started = time.monotonic()
        self._done = self._planned = 0.0

    def plan(self, weight):
        """Studies of that much work, in any unit, are to come."""
        self._planned += weight

    def study(self, name, words, arguments, weight=1.0):
        """Runs `orrery-sim run ARGUMENTS`; its JSON is kept as NAME.json in the folder, and made into a page."""
        result = self.path(name + ".json")
        self._run(["run", *arguments, "--progress", "--output", result], lambda line: self._show(words, weight, line))
        self._done += weight
        self._run(["report", result, "--output", self.path(name + ".html")], lambda line: None)
        with open(result, encoding="utf-8") as source:
            return json.load(source)

    def path(self, name):
        return os.path.join(self._folder, name)

    def _show(self, words, weight, line):
        at = RUN_LINE.search(line)
        if not at:
            return
        done = self._done + weight * (int(at.group(1)) - 1) / int(at.group(2))
        left = ""
        if done > 0 and self._planned > done:
            seconds = int((time.monotonic() - self._started) / done * (self._planned - done))
            left = f"; {seconds // 60}:{seconds % 60:02d} left"
        self._progress.update(f"{words}: {at.group(3)}, run {at.group(1)} of {at.group(2)}{left}")

    def _run(self, arguments, show):
        lines = []
        with subprocess.Popen([self._program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              errors="replace") as child:
            try:
                for line in child.stderr:
                    lines.append(line.rstrip())
                    show(lines[-1])
            except BaseException:
                child.terminate()
                raise
        if child.returncode != 0:
            wrong = [line for line in lines if not RUN_LINE.search(line)]
            raise LabError(f"orrery-sim {arguments[0]} failed", "\n".join(wrong[-5:]) or f"it ended with {child.returncode}")
