"""Runs in a guest: one topic of topic.py after the other. A topic that fails does not keep the next from running."""

import importlib
import json
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vm import topic_guest  # noqa: E402


def body(task, say):
    """The topics of a task, whose names and length are JSON."""
    task, failed = json.loads(task), []
    for topic in task["topics"]:
        say(f"== {topic}")
        started = time.monotonic()
        try:
            importlib.import_module(f"vm.{topic}_guest").body(task["how"], say)
        except Exception:
            failed.append(topic)
            say(traceback.format_exc())
        say(f"{topic}: {time.monotonic() - started:.0f} s")
    assert not failed, f"failed: {', '.join(failed)}"


if __name__ == "__main__":
    topic_guest.main(body)
