"""The images of a saved result by class: where a class was found, missed, and predicted where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from valor_gpu.store import Run
from valor_gpu.web.routes import Ask

_KEPT = 8  # runs whose images are kept by class


class ClassImage(NamedTuple):
    """An image with a class in it.

    Attributes:
        row: number of the image.
        f1: of the class in it, from 0 to 1.
        found: objects of the class that were found; likewise ``missed``.
        wrong: predictions of the class where there is none.
        missed: objects of the class that were not found.
    """

    row: int
    f1: float
    found: int
    wrong: int
    missed: int


def class_images(ask: Ask, run: Run) -> Mapping[str, list[ClassImage]]:
    """Class to its images, the worst first; read once, since a saved result does not change."""
    memory: dict[str, dict[str, list[ClassImage]]] = ask.studio.memory.setdefault("class images", {})
    if run.id not in memory:
        memory[run.id] = _by_class(run)
        while len(memory) > _KEPT:
            memory.pop(next(iter(memory)), None)
    return memory[run.id]


def _by_class(run: Run) -> dict[str, list[ClassImage]]:
    found: dict[str, list[ClassImage]] = {}
    samples = run.config.get("kind") == "classification"
    for row, counts in _of_samples(run) if samples else _of_shapes(run):
        for name, (right, wrong, missed) in counts.items():
            whole = 2 * right + wrong + missed
            found.setdefault(name, []).append(ClassImage(row, 2 * right / whole, right, wrong, missed))
    for images in found.values():
        images.sort(key=lambda each: (each.f1, -each.missed - each.wrong, each.row))
    return found


def _of_shapes(run: Run) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """Each image with the counts of its classes: found, wrong, missed."""
    for score in run.scores():
        shapes = (score.details or {}).get("shapes") if score.details else None
        if not shapes:
            continue
        counts: dict[str, list[int]] = {}
        for shape in shapes:
            is_truth, right = shape.get("of") == "truth", bool(shape.get("right"))
            if is_truth and right:
                continue  # counted by its prediction
            counts.setdefault(str(shape.get("name", "")), [0, 0, 0])[0 if right else 2 if is_truth else 1] += 1
        yield score.row, counts


def _of_samples(run: Run) -> Iterator[tuple[int, dict[str, list[int]]]]:
    for row in run.stream_rows():
        truth, guess = str(row.inputs.get("ground_truth")), str(row.outputs.get("answer"))
        yield row.number, {truth: [1, 0, 0]} if truth == guess else {truth: [0, 0, 1], guess: [0, 1, 0]}
