"""Where the built programs are."""

import os

from .errors import LabError

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Programs:
    """Paths below one build folder; nothing is checked before it is asked for."""

    def __init__(self, build_folder=None):
        folder = build_folder or os.environ.get("ORRERY_BUILD_DIR") or _default_folder()
        self.build_folder = os.path.abspath(folder)

    def program(self, name):
        return self._existing(os.path.join(self.build_folder, "bin", name))

    def library(self, name):
        return self._existing(os.path.join(self.build_folder, "lib", name))

    def _existing(self, path):
        if not os.path.exists(path):
            raise LabError(f"{path} is not there", "build it: cmake --preset release && ninja -C build/release "
                           "(tools/demo does so by itself), or point ORRERY_BUILD_DIR at another build")
        return path


def _default_folder():
    release = os.path.join(REPOSITORY, "build", "release")
    development = os.path.join(REPOSITORY, "build", "dev")
    return development if os.path.isdir(development) and not os.path.isdir(release) else release
