"""Runs commands for the checks of a release and of a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class CheckError(Exception):
    """What does not hold, in one line or with the output of the tool that says so."""


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Returns the standard output of a command.

    Raises:
        CheckError: the command failed. The message has its whole output.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **variables}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CheckError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
