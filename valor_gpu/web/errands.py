"""Short work that somebody waits for, in threads of its own: a slow judge holds no thread of the server.

Runs go on in processes of their own (:mod:`valor_gpu.web.processes.jobs`); an errand asks a judge about a few rows,
keeps nothing in the store, and ends with the server.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any

from valor_gpu.errors import InputError

PATIENCE = 2.0
"""Seconds that a page waits for an errand before it shows that it goes on."""
MOST = 4
"""Errands under way at a time."""
_KEPT = 32


class Errand:
    """Work under way.

    Attributes:
        about: what a page needs to show it again.
        found: what it returned; None before.
        error: what it raised; None otherwise.
    """

    def __init__(self, do: Callable[[], Any], about: dict[str, Any]) -> None:
        self.about = about
        self.found: Any = None
        self.error: Exception | None = None
        self._ended = threading.Event()
        self._do = do
        threading.Thread(target=self._work, name="errand", daemon=True).start()

    def _work(self) -> None:
        try:
            self.found = self._do()
        except Exception as error:  # whatever a judge or a template raises belongs on the page
            self.error = error
        except BaseException as error:  # SystemExit of a module of the user: without an error nothing would be found
            self.error = RuntimeError(f"it ended with {type(error).__name__}")
        finally:
            self._ended.set()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_set()

    def wait(self) -> bool:
        """Waits for its end, :data:`PATIENCE` long; False where that did not come."""
        return self._ended.wait(PATIENCE)


class Errands:
    """The errands of a server, the last ones of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[str, Errand] = {}

    def start(self, do: Callable[[], Any], about: dict[str, Any]) -> str:
        """Begins an errand and returns its id.

        Raises:
            InputError: too many are under way.
        """
        with self._lock:
            under_way = sum(not each.is_done for each in self._all.values())
            if under_way >= MOST:
                raise InputError(
                    f"{under_way} trials or comparisons are under way, which is the most: wait until one has ended"
                )
            done = [name for name, each in self._all.items() if each.is_done]
            for name in done[: max(len(self._all) - _KEPT + 1, 0)]:
                del self._all[name]
            name = secrets.token_hex(8)
            self._all[name] = Errand(do, about)
            return name

    def get(self, name: str) -> Errand | None:
        """The errand of an id; None where there is none any more."""
        with self._lock:
            return self._all.get(name)
