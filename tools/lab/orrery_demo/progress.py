"""What the demo is doing, on stderr: one line that is rewritten on a terminal, plain lines elsewhere."""

import shutil
import sys
import time


class Progress:
    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._started = time.monotonic()
        self._last = ""
        self._last_at = 0.0

    def elapsed(self):
        return time.monotonic() - self._started

    def _clock(self):
        seconds = int(self.elapsed())
        return f"[{seconds // 60}:{seconds % 60:02d}]"

    def step(self, text):
        """A step that may last; the next step or line replaces it on a terminal."""
        if text == self._last:
            return
        self._last = text
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\033[K" + f"{self._clock()} {text} ..."[:width])
        else:
            self._stream.write(f"{self._clock()} {text}\n")
        self._stream.flush()

    def update(self, text):
        """A detail of the step under way: shown on a terminal, at most every 10 s elsewhere."""
        if self._live:
            self.step(text)
        elif time.monotonic() - self._last_at > 10:
            self._last_at = time.monotonic()
            self.step(text)

    def line(self, text):
        """Something to stay."""
        if self._live:
            self._stream.write("\r\033[K")
        self._stream.write(text + "\n")
        self._stream.flush()
        self._last = ""

    def clear(self):
        if self._live:
            self._stream.write("\r\033[K")
            self._stream.flush()
