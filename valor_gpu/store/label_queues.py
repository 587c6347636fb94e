"""Queues by which people label rows: how the rows of each were drawn, and which of them were labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_choice
from valor_gpu.store.records import check_count

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run
    from valor_gpu.store.stores import Store

KIND = "label queue"
"""Kind of the settings in ``Store.views``; their name is the id of the run."""

ORDERS = ("random", "lowest", "highest", "rows")


@dataclass(frozen=True)
class LabelQueue:
    """How rows came to a person who labelled them, for one evaluator.

    A label counts as drawn at random only where ``order`` is "random": the first n rows of that order are a simple
    random sample of the rows of ``selection``.

    Args:
        evaluator: whose scores were labelled; empty for rows as a whole.
        author: who labelled.
        order: "random" (by ``seed``), "lowest" or "highest" (score of the evaluator first), or "rows" (by number).
        seed: of the random order; None for others.
        selection: conditions that the rows had to meet, as the query of an address; empty for all rows.
        hidden: whether the evaluator's score was hidden until the label was kept.
        rows: numbers of the labelled rows, in the order in which they were first labelled.

    Example:
        >>> LabelQueue("gpt_fluency", "ana", "random", 7, rows=(4, 2)).rows
        (4, 2)
    """

    evaluator: str
    author: str
    order: str
    seed: int | None = None
    selection: str = ""
    hidden: bool = True
    rows: tuple[int, ...] = field(default=())

    @property
    def design(self) -> dict[str, Any]:
        """All but the rows."""
        return {name: value for name, value in asdict(self).items() if name != "rows"}


def keep_label(store: Store, run: Run, queue: LabelQueue, row: int) -> None:
    """Notes that a row was labelled in a queue; a row keeps its place when it is labelled again.

    Args:
        store: that has the run.
        run: of the row.
        queue: its ``rows`` do not count.
        row: number of the row.

    Raises:
        InputError: an unknown order, or a row below 1.
    """
    check_choice("order", queue.order, ORDERS)
    check_count("row", row, 1)

    def make(kept: dict[str, Any] | None) -> Mapping[str, Any]:
        queues: list[dict[str, Any]] = list((kept or {}).get("queues") or ())
        for each in queues:
            if {name: each.get(name) for name in queue.design} == queue.design:
                if row not in each["rows"]:
                    each["rows"] = [*each["rows"], row]
                return {"queues": queues}
        return {"queues": [*queues, {**queue.design, "rows": [row]}]}

    store.views.change(KIND, run.id, make)


def label_queues(store: Store, run: Run) -> list[LabelQueue]:
    """Returns the queues of a run in which a row was labelled, in the order in which they began.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     keep_label(store, run, LabelQueue("gpt_fluency", "ana", "random", 7), 4)
        ...     [(each.order, each.seed, each.rows) for each in label_queues(store, run)]
        [('random', 7, (4,))]
    """
    kept = store.views.get(KIND, run.id) or {}
    return [LabelQueue(**{**each, "rows": tuple(each["rows"])}) for each in kept.get("queues") or ()]
