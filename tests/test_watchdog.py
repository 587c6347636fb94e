"""The end of a process whose native code does not return."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ctypes, math, time, watchdog
watchdog.PATIENCE = 0
dog = watchdog.Watchdog(2)
dog.expect(0.2)
dog.expect(math.inf)
time.sleep(1.5)
dog.expect(0.2)
ctypes.CDLL(None).pause()
"""


def test_stacks_are_shown_and_the_process_ends() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "cannot be interrupted" in done.stderr
    assert 'File "<string>", line 9 in <module>' in done.stderr
