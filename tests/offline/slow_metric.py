"""A metric for tests of kills: its ``update`` waits, kills its process or asks for much memory."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import torch

from valor_gpu.classification import Accuracy


class Slow(Accuracy):
    """Accuracy of four classes.

    Args:
        folder: where it says ``<process id>.at`` before each update, and where it looks for ``kill``, of which there
            is one for each update that is to kill its process, ``stuck``, of which there is one for each update that
            is not to return, ``asleep`` likewise without a lock of Python's, and ``wait``.
        greedy: an update of so many rows asks for 4 GiB.
        deadly: an update of so many rows kills its process, each time.
        kwargs: of Accuracy.
    """

    def __init__(self, folder: str, greedy: int = -1, deadly: int = -1, **kwargs: Any) -> None:
        super().__init__(num_classes=4, **kwargs)
        self._folder, self._greedy, self._deadly = Path(folder), greedy, deadly

    def update(self, preds: Any, target: Any, weight: Any = None) -> None:
        (self._folder / f"{os.getpid()}.at").touch()
        while (self._folder / "wait").exists():
            time.sleep(0.01)
        wishes = [wish for wish in self._folder.glob("kill-*") if _taken(wish)]
        if any([_taken(wish) for wish in self._folder.glob("stuck-*")]):
            (self._folder / "is-stuck").touch()
            ctypes.PyDLL(None).pause()  # native code that keeps the lock of Python's
        if any([_taken(wish) for wish in self._folder.glob("asleep-*")]):
            threading.Event().wait()
        if wishes or len(preds) == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(preds) == self._greedy:
            torch.ones(2**29, dtype=torch.float64)
        super().update(preds, target, weight)


def _taken(wish: Path) -> bool:
    """Removes a file; whether it was there, and not removed by another worker in the meantime."""
    try:
        wish.unlink()
    except FileNotFoundError:
        return False
    return True
