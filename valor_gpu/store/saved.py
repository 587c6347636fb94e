"""Finished results of other kinds than answers: their numbers, classes, curves and images, kept as a run.

The store knows no metric. What can be kept says so itself, by a method ``to_run`` that returns a :class:`SavedRun`;
:func:`write` writes the run of every kind of result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from valor_gpu._headline import headline
from valor_gpu._version import __version__
from valor_gpu.checks import check_choice
from valor_gpu.store.records import StoredRow, StoredScore
from valor_gpu.store.states import keep_state, too_large

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run

VISION = ("detection", "segmentation", "classification")
"""Kinds of saved results: ``config["kind"]`` of their runs."""

PORTION = 1000
"""Rows of one transaction."""

Json = Mapping[str, Any]
Ends = tuple[float, float]


@dataclass(frozen=True)
class SavedImage:
    """An image, or a sample, of a saved result.

    Attributes:
        key: by which the images of two runs are joined.
        inputs: what is known of it, JSON: ``image``, the name of its file; ``width`` and ``height`` in pixels.
        outputs: what was counted, JSON.
        scores: name to a number from 0 to 1; None where there is none.
        shapes: what to draw, JSON: ``of`` (``truth`` or ``prediction``), ``name``, ``box`` (x, y, width, height in
            pixels), ``right`` and, of predictions, ``score``.
    """

    key: str
    inputs: Json
    outputs: Json
    scores: Mapping[str, float | None]
    shapes: Sequence[Json] = ()


@dataclass(frozen=True)
class SavedRun:
    """A finished result as a store keeps it. Everything is strict JSON.

    Attributes:
        kind: one of :data:`VISION`.
        signature: the choices that made the numbers.
        metrics: name to number; None where there is none.
        counts: what the numbers were counted on.
        reasons: name to why a number is missing.
        intervals: name of a number to the ends of its interval.
        class_intervals: name of a number to the ends of its interval for each class, by the name of the class.
        interval_reasons: name of a number to why it has no interval although intervals were asked for.
        interval_choices: what made the intervals: ``choices`` of :class:`valor_gpu.stats.Intervals`; empty: unknown.
        classes: name of a number to its value for each class, by the name of the class.
        curves: of classes: ``name`` and ``lines``, each with its ``name`` and its ``points`` of recall and precision.
        matrix: ``names`` of classes, ``counts`` ([truth, prediction, count], by positions in the names) and ``note``.
        settings: what else says how the images were counted.
        images: each image; none where the result does not know them.
        notes: what a reader must know.
        state: content of the state file of the result, from which :func:`valor_gpu.stats.compare` computes its numbers
            again; empty: it has none.
    """

    kind: str
    signature: Json
    metrics: Mapping[str, float | None]
    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    intervals: Mapping[str, Ends] = field(default_factory=dict)
    class_intervals: Mapping[str, Mapping[str, Ends]] = field(default_factory=dict)
    interval_reasons: Mapping[str, str] = field(default_factory=dict)
    interval_choices: Json = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    curves: Sequence[Json] = ()
    matrix: Json | None = None
    settings: Json = field(default_factory=dict)
    images: Sequence[SavedImage] = ()
    notes: Sequence[str] = ()
    state: bytes = b""

    def __repr__(self) -> str:
        counts = {name: self.counts[name] for name in ("images", "samples", "datums") if name in self.counts}
        return headline("SavedRun", self.kind, self.metrics, counts)

    def to_run(self) -> SavedRun:
        """This run, so that a store can keep it as it keeps results."""
        return self

    def with_images(self, images: Iterable[SavedImage], settings: Json | None = None) -> SavedRun:
        """The same with its images."""
        return replace(self, images=tuple(images), settings=settings or self.settings)

    def summary(self) -> dict[str, Any]:
        """What the run ends with, with the keys that every finished run has."""
        samples = next((self.counts[name] for name in ("images", "samples", "datums") if name in self.counts), None)
        return {
            "metrics": self.metrics,
            "counts": self.counts,
            "reasons": self.reasons,
            "intervals": self.intervals,
            **self._interval_details(),
            "classes": self.classes,
            "curves": self.curves,
            "matrix": self.matrix,
            "rows": {"n": len(self.images) or samples, "ok": len(self.images), "failed": {}},
            **{"evaluators": {}, "slices": {}, "usage": {"total": 0}, "cost": None, "seconds": None, "stopped": None},
        }

    def _interval_details(self) -> dict[str, Any]:
        """What only runs whose intervals say how they were made have, so that summaries of others stay as they were."""
        names = ("class_intervals", "interval_reasons", "interval_choices")
        return {name: getattr(self, name) for name in names} if self.interval_choices else {}

    def config(self, name: str, data: Json, folder: str | None, saved_by: str) -> dict[str, Any]:
        """What the run is made of; every score of an image is an evaluator of it, so that runs can be compared."""
        names = dict.fromkeys(score for image in self.images for score in image.scores)
        return {
            "version": 1,
            "valor_gpu": __version__,
            "kind": self.kind,
            "evaluation_name": name,
            "data": dict(data),
            "data_mapping": {"question": "${data.image}"},
            "signature": self.signature,
            "settings": self.settings,
            "images": {"folder": folder},
            "evaluators": [_evaluator(score) for score in names],
            "saved_by": saved_by,
            "notes": list(self.notes),
        }


class Savable(Protocol):
    """What a store can keep."""

    @property
    def to_run(self) -> Callable[..., SavedRun]:
        """Returns the result as a run; a method with options of its own."""


def within_limits(found: SavedRun) -> SavedRun:
    """The run without a state file that is too large, and with a note that says so.

    Raises:
        InputError: its kind is unknown.
    """
    check_choice("kind", found.kind, VISION)
    if reason := too_large(len(found.state)):
        return replace(found, state=b"", notes=(*found.notes, f"{reason[0].upper()}{reason[1:]}."))
    return found


def write(run: Run, found: SavedRun) -> None:
    """Writes rows, scores, state file and summary of a run that was just made, and finishes it."""
    with run.lease():
        for rows, scores in _portions(found.images):
            run.add_rows(rows)
            run.add_scores(scores)
        if found.state:
            with run._write() as connection:
                keep_state(connection, run._number, found.state)
        run.finish("finished", found.summary())


def _evaluator(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "summary_name": f"mean_{name}",
        "kind": "vision",
        "version": __version__,
        "parameters": {},
        "low": 0.0,
        "high": 1.0,
        "higher_is_better": True,
        "pooled": False,
        "needs_judge": False,
        "source": "builtin",
    }


def _portions(images: Sequence[SavedImage]) -> Iterator[tuple[list[StoredRow], list[StoredScore]]]:
    """Rows and scores; a number that does not exist is no score."""
    numbered = enumerate(images, 1)
    while portion := list(islice(numbered, PORTION)):
        rows = [StoredRow(number, each.key, dict(each.inputs), dict(each.outputs)) for number, each in portion]
        yield rows, [score for number, each in portion for score in _scores(number, each)]


def _scores(number: int, image: SavedImage) -> Iterator[StoredScore]:
    for place, (name, value) in enumerate(image.scores.items()):
        if value is not None:
            yield StoredScore(number, name, 0, value, details={"shapes": list(image.shapes)} if not place else None)
