import os
import tempfile
import unittest
from unittest import mock

import support  # noqa: F401  (the import path)
from orrery_lab import state
from orrery_lab.errors import LabError


class State(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        patched = mock.patch.object(state, "ROOT", os.path.join(self._folder.name, "orrery", "lab"))
        patched.start()
        self.addCleanup(patched.stop)

    def test_names_that_could_leave_the_folder_or_meet_another_labs_namespaces_are_refused(self):
        for name in ("", "..", "a/b", "a-b", "UPPER", "x" * 17):
            with self.assertRaises(LabError):
                state.State(name)

    def test_what_was_saved_is_found_by_the_next_command(self):
        first = state.State("one")
        first.data = {"processes": [{"pid": 5}]}
        first.save()
        first.close()
        again = state.State("one")
        self.assertEqual(again.data, {"processes": [{"pid": 5}]})
        again.close()

    def test_two_commands_cannot_work_on_one_lab(self):
        first = state.State("one")
        with self.assertRaises(LabError):
            state.State("one")
        other = state.State("two")
        other.close()
        first.close()
        state.State("one").close()

    def test_a_removed_lab_leaves_no_file(self):
        lab = state.State("one")
        lab.data = {"processes": []}
        lab.save()
        lab.remove()
        lab.close()
        self.assertFalse(os.path.exists(os.path.dirname(state.ROOT)))


if __name__ == "__main__":
    unittest.main()
