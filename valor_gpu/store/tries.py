"""The last try of a run's failures, as far as it ended early: when, and why. The run itself stays finished."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from valor_gpu.store.datasets import keep_view, kept_view
from valor_gpu.store.values import packed, packed_json

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run

KIND = "last try"
"""Kind of the settings in ``Store.views``; their name is the id of the run."""


class LastTry(NamedTuple):
    """A try that ended early.

    Attributes:
        at: seconds since 1970.
        reason: why, without secrets.
    """

    at: float
    reason: str


def note_try(run: Run, reason: str) -> None:
    """Keeps why a try of a finished run's failures ended early; an empty reason takes the note away."""
    key = (packed(KIND), packed(run.id))
    if not reason and last_try(run) is None:
        return
    with run._database.write() as connection:
        if reason:
            keep_view(connection, (*key, packed_json("reason", {"reason": reason}), time.time()))
        else:
            connection.execute("DELETE FROM views WHERE kind = ? AND name = ?", key)


def last_try(run: Run) -> LastTry | None:
    """Returns the last try of a run's failures if it ended early; None otherwise."""
    with run._database.read() as connection:
        found = kept_view(connection, packed(KIND), packed(run.id))
    return None if found is None else LastTry(found[1], str(found[0].get("reason", "")))
