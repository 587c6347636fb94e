"""What lists show of runs: configuration and summary of each, read once as long as they do not change."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from valor_gpu.errors import DamageError, InputError
from valor_gpu.evaluation.report.cards import place_of
from valor_gpu.pages.numbers import decimals_of
from valor_gpu.store import RunHead, Store
from valor_gpu.store.checksums import tell
from valor_gpu.store.heads import DAMAGED
from valor_gpu.store.progress import RunProgress, progress_of
from valor_gpu.web.plain import plain_config, plain_summary
from valor_gpu.web.processes.jobs import GONE, changed_states
from valor_gpu.web.processes.live_run import progress_now, rows_of

_LARGE = ("classes", "class_intervals", "curves", "matrix")
"""Parts of summaries that lists do not show."""


@dataclass(frozen=True)
class Entry:
    """A run of the list.

    Attributes:
        head: from the store.
        config: of the run; a saved vision result has ``kind`` in it.
        tags: of the run.
        summary: of its end; empty before.
        progress: how far a run is that has not ended; None where it never began, or an older version ran it.
        data_name: of its data set in the store's list, which knows the name of an uploaded file; else empty.
        damage: what of the run is damaged, where it cannot be read; empty otherwise.
    """

    head: RunHead
    config: Mapping[str, Any]
    tags: Mapping[str, Any]
    summary: Mapping[str, Any] = field(default_factory=dict)
    progress: RunProgress | None = None
    data_name: str = ""
    damage: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether nothing of the run can be read: its record is damaged."""
        return self.head.state == DAMAGED

    @property
    def kind(self) -> str:
        """``answers`` or ``vision``."""
        return "vision" if self.config.get("kind", "evaluation") != "evaluation" else "answers"

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Name to number, None where there is none."""
        return self.summary.get("metrics") or {}

    @cached_property
    def data(self) -> str:
        """Name of the data set."""
        source = self.data_name or str((self.config.get("data") or {}).get("source", ""))
        return source.replace("\\", "/").rsplit("/", 1)[-1]

    @property
    def n_rows(self) -> int | None:
        """Rows of the data set, as far as that is known."""
        rows = self.summary.get("rows") or {}
        counted = rows.get("n") if isinstance(rows, Mapping) else None
        if counted is not None:
            return int(counted)
        told = (self.config.get("data") or {}).get("rows")
        return told if told is not None or self.progress is None else self.progress.total_rows

    @property
    def n_failed(self) -> int | None:
        """Scores that failed, so far where the run has not ended; None where that is not known."""
        found = self.summary.get("evaluators")
        if found is None:
            return None if self.progress is None else sum(self.progress.failed_scores.values())
        return sum(sum((each.get("n_failed") or {}).values()) for each in found.values())

    @property
    def cost(self) -> float | None:
        """What the run has cost, so far where it has not ended; None where that is not known."""
        found: float | None = self.summary.get("cost")
        return self.progress.cost if found is None and self.progress is not None else found

    @property
    def currency(self) -> str:
        """A word for the currency of the cost; empty where nobody said it."""
        prices = self.config.get("prices") or {}
        return str(prices.get("currency", "") or ("" if self.progress is None else self.progress.currency))

    @property
    def of_rows(self) -> int | None:
        """Rows that a run was to read which stopped before it had all of them; None for other runs."""
        told, rows = rows_of(self.config), self.n_rows
        if told is None or rows is None or self.head.state not in ("stopped", "failed"):
            return None
        limit, epochs = self.config.get("limit"), self.config.get("epochs")
        wanted = min(told, limit) if isinstance(limit, int) else told
        wanted *= epochs if isinstance(epochs, int) and epochs > 0 else 1
        return wanted if rows < wanted else None

    @property
    def about(self) -> str:
        """What was evaluated, and by which judge; of a damaged run, what of it is."""
        if self.damage:
            return self.damage
        target, judge = self.config.get("target") or {}, self.config.get("judge") or {}
        name = ", ".join(str(part) for part in (target.get("name"), self.tags.get("variant")) if part)
        parts = [name, judge.get("model") and f"judge {judge['model']}"]
        own = "saved result" if self.kind == "vision" else "answers of the data"
        return " · ".join(str(part) for part in parts if part) or own

    @property
    def started(self) -> str:
        """When the run was made, in local time; empty where that cannot be read."""
        if self.is_lost:
            return ""
        return datetime.fromtimestamp(self.head.created).strftime("%d %b %Y, %H:%M")

    def decimals(self, metric: str) -> int:
        """Decimals that a metric's number is shown with."""
        for each in self.config.get("evaluators") or ():
            name = each.get("summary_name")
            if name == metric or (name is not None and metric.startswith(f"{name}.")):  # a part of it
                return decimals_of(each.get("low"), each.get("high"))
        return 3

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Metrics of the evaluators in the order of the run's page, each with the place of its family."""
        found = {str(each.get("summary_name")): place_of(each.get("kind"))
                 for each in self.config.get("evaluators") or () if each.get("summary_name") is not None}  # fmt: skip
        return dict(sorted(found.items(), key=lambda each: each[1]))

    @property
    def headline(self) -> str | None:
        """The metric that stands for the run: the first one that has a number, of quality where one is."""
        for name in (*self.places, *self.metrics):
            if self.metrics.get(name) is not None:
                return str(name)
        return None


class Book:
    """Entries of a store's runs. What has ended is read once; what runs is read anew.

    Args:
        store: whose runs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Any, Entry]] = {}

    def entries(self, deleted: bool = False) -> list[Entry]:
        """All runs, the newest first; a damaged one says so, and takes no other with it."""
        heads = self._store.heads(deleted)
        with self._lock:
            kept = {head.id: self._kept[head.id] for head in heads if head.id in self._kept}
        stale = [head for head in heads if head.id not in kept or kept[head.id][0] != _mark(head)]
        kept.update(self._read(stale))
        with self._lock:
            self._kept.update(kept)
        found = [kept[head.id][1] for head in heads if head.id in kept]
        shown = changed_states(self._store, {each.head.id: each.head.state for each in found if not each.is_lost})
        return [_with_state(each, shown[each.head.id]) if each.head.id in shown else each for each in found]

    def _read(self, heads: Iterable[RunHead]) -> dict[str, tuple[Any, Entry]]:
        by_id = {head.id: head for head in heads}
        damages = {head.id: head.damage for head in by_id.values() if head.damage}
        names = {each.hash: each.name for each in self._store.datasets.list()} if by_id else {}
        contents = self._store.contents([uid for uid in by_id if uid not in damages], damages)
        found = {}
        for uid, (config, tags, summary) in contents.items():
            head, config = by_id[uid], plain_config(config)
            progress, damage = None, ""
            try:
                progress = None if head.finished is not None else self._progress(head, config)
            except DamageError as error:
                tell(error, self._store.path)
                damage = f"damaged: {error.place}: {error.what}"
            name = names.get(str((config.get("data") or {}).get("hash")), "")
            ended = summary if head.finished is not None else None  # else it is of an end before it was resumed
            shown = _bare(plain_summary(ended or {}))
            found[uid] = (_mark(head), Entry(head, config, tags, shown, progress, name, damage))
        return found | {uid: (object(), self._damaged(by_id[uid], what)) for uid, what in damages.items()}

    def _damaged(self, head: RunHead, what: str) -> Entry:
        """The entry of a run whose record or content cannot be read."""
        tell(DamageError(f"run {head.id} ({head.name})", what), self._store.path)
        return Entry(head._replace(state=DAMAGED), {}, {}, damage=f"damaged: {what}")

    def _progress(self, head: RunHead, config: Mapping[str, Any]) -> RunProgress | None:
        """How far a run is that has not ended; of one that an older version works on, how many rows it has."""
        try:
            run = self._store.run(head.id)
        except InputError:  # purged meanwhile
            return None
        found = progress_now(self._store, run) or progress_of(run)
        if found is None and head.state == "running":
            rows = sum(run.counts().values())
            return RunProgress(at=time.time(), phase="asking", total_rows=rows_of(config), done_rows=rows)
        return found


def _bare(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary without what lists do not show, which of saved results is most of it."""
    return {name: value for name, value in summary.items() if name not in _LARGE}


def _with_state(entry: Entry, state: str) -> Entry:
    """The entry of a run whose process is gone, or has only begun."""
    summary = {**entry.summary, "stopped": GONE} if state == "stopped" else entry.summary
    return replace(entry, head=entry.head._replace(state=state), summary=summary)


def _mark(head: RunHead) -> Any:
    """What changes with the run; of one that has not ended, nothing is the same as before."""
    return object() if head.finished is None else (head.state, head.finished, head.deleted, head.name, head.edited)
