"""What people change of a run: its name, its tags and a note."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.store.checksums import placed, real_or_none
from valor_gpu.store.heads import kept_run, update_run
from valor_gpu.store.values import json_text, packed, packed_json, unpacked

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run

LONGEST_NAME, LONGEST_NOTE = 200, 4000
"""Characters."""
MOST_TAGS, LONGEST_TAG = 50, 500
"""Tags of a run, and characters of the name or the JSON of the value of a tag."""


class RunEdits(NamedTuple):
    """What people said of a run.

    Attributes:
        note: in words; empty without one.
        edited: seconds since 1970 when name, tags or note were last changed; None when they never were.
    """

    note: str
    edited: float | None


def edits_of(run: Run) -> RunEdits:
    """Returns the note of a run, and when the run was last edited."""
    with run._database.read() as connection:
        kept = kept_run(connection, run._number)
        if kept is None:
            raise InputError(f"run {run.id} is no longer in the store: it was purged")
        with placed("note of run ", run._number):
            return RunEdits(unpacked(kept["note"]), real_or_none(kept["edited"]))


_ANY = object()


def edit_run(
    run: Run,
    *,
    name: str | None = None,
    tags: Mapping[str, Any] | None = None,
    note: str | None = None,
    edited: Any = _ANY,
) -> None:
    """Changes the name, the tags or the note of a run, also while a process works on it.

    Args:
        run: is changed as well: its ``name`` and ``tags`` are the new ones.
        name: at most 200 characters; None keeps it.
        tags: JSON, at most 50, in place of all tags; None keeps them. The name of a tag has 1 to 500 characters, and
            so has the JSON of its value at most.
        note: at most 4,000 characters; None keeps it, an empty text takes it away.
        edited: when the run was last edited as far as the caller knows (:func:`edits_of`); by default whatever the
            store has.

    Raises:
        InputError: an argument out of its bounds, or a run that was edited after ``edited``. Nothing is changed.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {}, {"model": "small"})
        ...     edit_run(run, name="capitals, second try", tags={**run.tags, "golden": True}, note="for the review")
        ...     again = store.run(run.id)
        ...     again.name, again.tags, edits_of(again).note
        ('capitals, second try', {'model': 'small', 'golden': True}, 'for the review')
    """
    changes = _changes(name, tags, note)
    if not changes:
        return
    with run._database.write() as connection:
        kept = kept_run(connection, run._number)
        if kept is None:
            raise InputError(f"run {run.id} is no longer in the store: it was purged")
        if edited is not _ANY and kept["edited"] != edited:
            raise InputError(
                f"run {run.id} was edited after this form was read, so nothing was changed: read the page again, then "
                "edit what it says now"
            )
        now = max(time.time(), (kept["edited"] or 0.0) + 1e-6)  # also where the clock was set back
        update_run(connection, run._number, **changes, edited=now)
    run.name = run.name if name is None else name
    run.tags = run.tags if tags is None else dict(tags)


def _changes(name: str | None, tags: Mapping[str, Any] | None, note: str | None) -> dict[str, Any]:
    """Columns and their new values, checked."""
    changes: dict[str, Any] = {}
    for argument, text, most in (("name", name, LONGEST_NAME), ("note", note, LONGEST_NOTE)):
        if text is not None:
            check_type(argument, text, str)
            if len(text) > most:
                raise InputError(f"{argument} must have at most {most:,} characters but has {len(text):,}")
            changes[argument] = packed(text)
    if tags is not None:
        changes["tags"] = _packed_tags(tags)
    return changes


def _packed_tags(tags: Mapping[str, Any]) -> Any:
    check_type("tags", tags, Mapping)
    if len(tags) > MOST_TAGS:
        raise InputError(f"tags must be at most {MOST_TAGS} but are {len(tags):,}")
    for name, value in tags.items():
        check_type("name of a tag", name, str)
        if not 1 <= len(name) <= LONGEST_TAG:
            raise InputError(f"the name of a tag must have 1 to {LONGEST_TAG} characters but has {len(name):,}")
        if (size := len(json_text(f"tags[{name[:40]!r}]", value))) > LONGEST_TAG:
            about = f"the value of the tag {name[:40]!r}"
            raise InputError(f"{about} must have at most {LONGEST_TAG} characters as JSON but has {size:,}")
    return packed_json("tags", dict(tags))
