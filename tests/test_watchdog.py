"""The end of a process whose native code does not return."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import collections, ctypes, faulthandler, itertools, math, os, time, watchdog
watchdog.PATIENCE = 0
dog = watchdog.Watchdog(2)
dog.expect(0.2)
dog.expect(math.inf)
time.sleep(0.5)
dog.expect(0.5)
if os.fork() == 0:
    faulthandler.dump_traceback_later(60)
    os._exit(0)
os.wait()
print("ready", flush=True)
LOOP
"""


@pytest.mark.parametrize("loop", ["ctypes.CDLL(None).pause()", "collections.deque(itertools.repeat(1), maxlen=0)"])
def test_stacks_are_shown_and_the_process_ends(loop: str) -> None:
    """Native code may keep Python's lock, as that of the second loop does."""
    command = [sys.executable, "-c", PROGRAM.replace("LOOP", loop)]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == "ready\n" and done.stderr.startswith("Timeout (0:00:00.")
    assert 'File "<string>", line 14 in <module>' in done.stderr
