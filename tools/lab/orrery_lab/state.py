"""What a lab has made, on disk: enough to remove it after any crash. One folder per lab, one lock per lab."""

import fcntl
import json
import os
import re
import shutil

from .errors import LabError

ROOT = "/run/orrery/lab"
NAME = re.compile(r"[a-z0-9]{1,16}")


class State:
    """Owns the folder's lock from construction to close(). `data` is saved by save() alone."""

    def __init__(self, name):
        if not NAME.fullmatch(name):
            raise LabError(f"'{name}' cannot name a lab", "use 1 to 16 lower-case letters and digits")
        self.name = name
        self.folder = os.path.join(ROOT, name)
        self._lock = _locked(name)
        self.data = read(name)

    def save(self):
        os.makedirs(self.folder, exist_ok=True)
        temporary = os.path.join(self.folder, "state.json.new")
        with open(temporary, "w", encoding="utf-8") as out:
            json.dump(self.data, out, indent=1)
        os.replace(temporary, os.path.join(self.folder, "state.json"))

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.data = None

    def close(self):
        if self.data is None and not os.path.exists(self.folder):
            _unlink(self._lock.name)
        self._lock.close()
        for empty in (ROOT, os.path.dirname(ROOT)):
            try:
                os.rmdir(empty)
            except OSError:
                break


def _locked(name):
    path = os.path.join(ROOT, f".{name}.lock")
    while True:
        os.makedirs(ROOT, exist_ok=True)
        lock = open(path, "w", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise LabError(f"another command is working on lab '{name}'", "wait for it, or choose another name with --name") from None
        try:
            if os.stat(path).st_ino == os.fstat(lock.fileno()).st_ino:
                return lock
        except FileNotFoundError:
            pass  # its last owner removed it between our open and our lock
        lock.close()


def read(name):
    """The saved state of lab `name`, or None."""
    try:
        with open(os.path.join(ROOT, name, "state.json"), encoding="utf-8") as saved:
            return json.load(saved)
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def lab_names():
    try:
        return sorted(n for n in os.listdir(ROOT) if NAME.fullmatch(n))
    except FileNotFoundError:
        return []


def _unlink(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
