"""Asks the controller, through orreryctl, what it plans while a run is under way: for the report, and for the hit rate."""

import json
import subprocess
import time

ASK_EVERY_S = 2.0


class PlanWatcher:
    """Call it often; it asks each time until it has seen a plan, then every few seconds. `plan` is the last answer that had flows."""

    def __init__(self, command, environment, ask_every_s=ASK_EVERY_S):
        self._command = command
        self._ask_every_s = ask_every_s
        self._environment = environment
        self._asked_at = time.monotonic()
        self.plan = {}

    def __call__(self):
        if self.plan and time.monotonic() - self._asked_at < self._ask_every_s:
            return
        self._asked_at = time.monotonic()
        answer = self.ask("plan", "list")
        if answer and answer.get("flows"):
            self.plan = answer

    def ask(self, noun, verb=None):
        """The JSON answer of one orreryctl command, {} when there is none: a run goes on without the controller."""
        try:
            done = subprocess.run([self._command, noun, *([verb] if verb else []), "--json"], env=self._environment, capture_output=True,
                                  text=True, timeout=3, check=False)
            return json.loads(done.stdout)  # whatever the exit status: health has one of its own
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return {}
