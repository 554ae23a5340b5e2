"""Runs commands beside a guest that it asks for, so that a test is one script: see `ask` in steps.py.

    python3 hero/guest/driver_host.py SHARED
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

SECONDS = 24 * 3600  # if the guest never says that it ends


def answer(shared, number, command):
    """Runs a command, and writes its exit code and what it printed."""
    done = subprocess.run(["setpriv", "--pdeathsig", "KILL", "bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    part = shared / f"answer-{number}.part"
    part.write_text(json.dumps([done.returncode, done.stdout]))
    part.rename(shared / f"answer-{number}")


def main():
    """Answers, side by side, until the guest asks for the end."""
    shared = Path(sys.argv[1])
    number, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        question = shared / f"ask-{number}"
        if not question.exists():
            time.sleep(0.05)
            continue
        command = json.loads(question.read_text())
        if command is None:
            return
        threading.Thread(target=answer, args=(shared, number, command), daemon=True).start()
        number += 1


if __name__ == "__main__":
    main()
