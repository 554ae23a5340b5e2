"""BIRD in a namespace."""

import subprocess
import time

from lib import required
from lib.netns import run

START_SECONDS = 30


class Bird:
    """`config` is what /etc/bird/bird.conf would have. Its files are in `folder`, under `name`."""

    def __init__(self, namespace, config, folder, name):
        required.program("bird", "bird2")
        self.socket, file = folder / f"{name}.ctl", folder / f"{name}.conf"
        file.write_text(config)
        self.process = namespace.popen("bird", "-f", "-c", str(file), "-s", str(self.socket), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + START_SECONDS
        while "bird" not in self.ask("show status"):
            if self.process.poll() is not None:
                raise RuntimeError(f"BIRD does not run: {self.process.stderr.read()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"BIRD: not within {START_SECONDS} s")
            time.sleep(0.05)

    def ask(self, command):
        """What `birdc` says, in small letters."""
        done = run("birdc", "-s", str(self.socket), *command.split(), check=False)
        return done.stdout.lower()

    def close(self):
        """Ends it."""
        self.process.kill()
        self.process.wait(10)
