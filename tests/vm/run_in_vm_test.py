"""run-in-vm: what its guests can do, and how each way for a guest to end is told."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
RUN = os.path.join(HERE, "run-in-vm")
PATIENCE_S = 180  # with what hangs; a guest boots in seconds, on a busy machine in a minute


def run(*words, **settings):
    settings.setdefault("cwd", HERE)
    return subprocess.run([RUN, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, **settings)


def guests_below(folder):
    """Process ids of QEMUs that share a folder."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        if words.startswith(b"qemu-system") and os.fsencode(f"path={folder},") in words:
            found.append(int(entry))
    return found


class RunInVmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="orrery vm, test-")
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def test_the_command_gets_its_words_directory_and_settings_and_its_status_comes_back(self):
        script = 'printf "%s|" "$PWD" "$ORRERY_X" "$(id -u)" "$(uname -r)" "$@"; exit 9'
        done = run("bash", "-c", script, "name", "two words", "it's $HOME", env={**os.environ, "ORRERY_X": "a 'b' \"c\""})
        fields = done.stdout.split("|")
        self.assertEqual(fields[:3] + fields[4:], [HERE, "a 'b' \"c\"", "0", "two words", "it's $HOME", ""], done.stderr)
        self.assertNotEqual(fields[3], os.uname().release)
        self.assertEqual((done.returncode, done.stderr), (9, ""))

    def test_only_the_out_directory_is_written_through(self):
        with open(os.path.join(self.folder, "there"), "w", encoding="utf-8") as file:
            file.write("before")
        out = os.path.join(self.folder, "out")
        done = run("--out", out, "bash", "-c", f'echo after > "{self.folder}/there" && cat "{self.folder}/there" && echo told > "$ORRERY_VM_OUT/result"')
        self.assertEqual((done.returncode, done.stdout), (0, "after\n"), done.stderr)
        with open(os.path.join(self.folder, "there"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")
        with open(os.path.join(out, "result"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "told\n")

    def test_a_guest_that_takes_too_long_or_dies_is_told_apart(self):
        late = run("--timeout", "8", "sleep", "100")
        self.assertEqual(late.returncode, 124)
        self.assertIn("stopped after 8 seconds", late.stderr)
        dead = run("bash", "-c", "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; sleep 60")
        self.assertEqual(dead.returncode, 125)
        self.assertIn("Kernel panic", dead.stderr)

    def test_an_interrupted_or_killed_run_leaves_no_guest(self):
        command = [RUN, "--out", self.folder, "bash", "-c", 'touch "$ORRERY_VM_OUT/up"; sleep 100']
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number), subprocess.Popen(command, env={**os.environ, "TMPDIR": self.folder}) as process:
                self.wait_for(lambda: os.path.exists(os.path.join(self.folder, "up")))
                os.remove(os.path.join(self.folder, "up"))
                self.assertTrue(guests_below(self.folder.replace(",", ",,")))
                process.send_signal(number)
                process.wait(PATIENCE_S)
                self.wait_for(lambda: not guests_below(self.folder.replace(",", ",,")))

    def test_wrong_usage_and_a_missing_emulator_are_told_without_booting(self):
        for words in ([], ["--timeout"], ["--timeout", "soon", "true"], ["--no-such-option", "true"]):
            self.assertEqual(run(*words).returncode, 2, words)
        os.symlink("/bin/bash", os.path.join(self.folder, "bash"))
        for tool in ("dirname", "cat"):
            os.symlink(f"/usr/bin/{tool}", os.path.join(self.folder, tool))
        missing = run("true", env={"PATH": self.folder})
        self.assertEqual(missing.returncode, 77)
        self.assertIn("tools/setup", missing.stderr)

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"waited {PATIENCE_S} s in vain")
            time.sleep(0.1)


if __name__ == "__main__":
    probe = run("true")
    if probe.returncode == 77:
        sys.exit(77)
    unittest.main()
