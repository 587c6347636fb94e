"""The queue of rows that a person labels: which rows, in which order, and which comes next."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.store import Run
from valor_gpu.store.label_queues import ORDERS, LabelQueue
from valor_gpu.store.opinions import answered_rows, labelled_rows, rows_by_score
from valor_gpu.web.routes import Ask
from valor_gpu.web.rows.conditions import Wanted
from valor_gpu.web.rows.found_rows import select
from valor_gpu.web.rows.opinion_forms import WHOLE
from valor_gpu.web.rows.row_addresses import SELECTION
from valor_gpu.web.rows.run_rows import thresholds_of

RANDOM, LOWEST, HIGHEST, ROWS = ORDERS
_LARGEST_SEED = 2**31


@dataclass(frozen=True)
class Queue:
    """Rows of a queue, and how far its author is.

    Attributes:
        design: how the rows were drawn.
        numbers: of all rows, in the order in which they come.
        labelled: numbers of those that the author has labelled.
    """

    design: LabelQueue
    numbers: Sequence[int]
    labelled: frozenset[int]
    places: Mapping[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {number: place for place, number in enumerate(self.numbers)})

    @property
    def n_labelled(self) -> int:
        """Rows of the queue that are labelled."""
        return len(self.labelled)

    def after(self, number: int | None) -> int | None:
        """The next row without a label, from the beginning again behind the last one; None when all others have one.

        Args:
            number: of the row behind which to look; None, and a row that is not in the queue: at the beginning.
        """
        start = -1 if number is None else self.places.get(number, -1)
        turned = (*range(start + 1, len(self.numbers)), *range(start + 1))
        return next(
            (found for place in turned if (found := self.numbers[place]) not in self.labelled and found != number), None
        )

    def before(self, number: int) -> int | None:
        """The row before in the order, labelled or not; None of the first one."""
        place = self.places.get(number, 0)
        return self.numbers[place - 1] if place else None


def read_queue(ask: Ask, run: Run, infos: Sequence[Mapping[str, Any]], author: str) -> Queue:
    """The queue of an address.

    Args:
        ask: with ``of``, ``order``, ``seed``, ``show`` and conditions of rows in its query.
        run: whose rows are labelled.
        infos: of the evaluators of the run.
        author: who labels.

    Raises:
        InputError: an evaluator that the run has not, an unknown order, or a seed that is none.
    """
    query, names = ask.query, [str(each["name"]) for each in infos]
    asked = query.get("of", "")
    evaluator = "" if asked == WHOLE or not names else asked or names[0]
    if evaluator and evaluator not in names:
        raise InputError(f"of must be an evaluator of the run but is {evaluator[:100]!r}")
    order = query.get("order") or RANDOM
    if order not in ORDERS:
        raise InputError(f"order must be one of {', '.join(ORDERS)} but is {order[:100]!r}")
    seed = _seed(query.get("seed", "")) if order == RANDOM else None
    selection = urlencode([(name, text) for name, text in query.multi_items() if name in SELECTION and text])
    design = LabelQueue(evaluator, author, order, seed, selection, query.get("show") != "1")
    numbers = ordered(run, design, _selected(ask, run, infos) if selection else None)
    return Queue(design, numbers, frozenset(labelled_rows(run, evaluator, author)).intersection(numbers))


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or int(text) >= _LARGEST_SEED:
        raise InputError(f"seed must be a whole number from 0 to {_LARGEST_SEED - 1:,} but is {text[:20]!r}")
    return int(text)


def ordered(run: Run, design: LabelQueue, selected: Sequence[int] | None) -> list[int]:
    """Numbers of the rows of a queue in its order; rows without an answer are in none.

    The random order goes by a hash of seed and number, so that the place of a row does not depend on which other rows
    there are. Rows that come while a run goes on take their places in between. The first n rows are a random sample of
    all once all of them are labelled: the queue goes on behind a labelled row, and begins with the first one without a
    label when it is opened anew.

    Args:
        run: of the rows.
        design: of the queue.
        selected: rows that were chosen, in their order; None for all.
    """
    answered = answered_rows(run)
    if design.order in (LOWEST, HIGHEST):
        found = rows_by_score(run, design.evaluator, design.order == HIGHEST)
        chosen = frozenset(answered if selected is None else selected).intersection(answered)
        return [number for number in found if number in chosen]
    if selected is not None:
        there = frozenset(answered)
        answered = [number for number in selected if number in there]
    if design.order == RANDOM:
        return list(_at_random(tuple(answered), design.seed))
    return answered


@lru_cache(maxsize=4)
def _at_random(numbers: tuple[int, ...], seed: int | None) -> tuple[int, ...]:
    """Rows in their random order, kept since each label asks for it twice."""
    key = str(seed).encode()
    return tuple(sorted(numbers, key=lambda each: hashlib.blake2b(b"%d" % each, digest_size=8, key=key).digest()))


def _selected(ask: Ask, run: Run, infos: Sequence[Mapping[str, Any]]) -> list[int]:
    """Numbers of the rows that the conditions of an address select, in their order."""
    facts = {str(each["name"]): dict(each) for each in infos}
    limits = read_thresholds(thresholds_of(ask, run) or run.config.get("thresholds"), infos)
    found: list[int] = select(ask.studio, run, Wanted.read(ask.query, facts), facts, limits).numbers.tolist()
    return found
