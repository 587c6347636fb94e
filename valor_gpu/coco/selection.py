"""Which evaluated cells ``COCOeval.accumulate`` takes, by the parameters it is given. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError

Cell = Mapping[str, Any]
Positions = list[int]


@frozen
class Selection:
    """Positions among what was evaluated, in the order of the result.

    Attributes:
        categories: positions of categories.
        areas: see ``categories``.
        images: positions of images; None for all in order.
        limits: the max-detection limits themselves.
        evaluated: numbers of area ranges and images evaluated.
    """

    categories: Positions
    areas: Positions
    images: Positions | None
    limits: list[int]
    evaluated: tuple[int, int]

    def inside(self, classes: int, areas: int, images: int) -> bool:
        """Whether every position exists among so many classes, area ranges and images."""
        chosen = self.images or []
        return (
            self.evaluated == (areas, images)
            and max(self.categories, default=-1) < classes
            and max(self.areas, default=-1) < areas
            and max(chosen, default=-1) < images
        )

    def cells(self, results: Sequence[Cell | None]) -> list[list[list[Cell]]]:
        """Of each category and area range the results of its images, None entries left out."""
        areas, images = self.evaluated
        chosen = range(images) if self.images is None else self.images
        try:
            return [
                [
                    [e for e in (results[(k * areas + a) * images + i] for i in chosen) if e is not None]
                    for a in self.areas
                ]
                for k in self.categories
            ]
        except IndexError:
            raise InputError(
                f"evalImgs must hold an entry for each category, area range and image of the parameters"
                f" but holds {len(results)}"
            ) from None


def select(p: Any, evaluated: Any, strict: bool) -> Selection:
    """What ``p`` takes of an evaluation with parameters ``evaluated``.

    Args:
        p: parameters to accumulate by.
        evaluated: parameters of the evaluation.
        strict: as in pycocotools, an id or range that was evaluated is taken from the cell at its own position in
            ``p``, and what was not evaluated is left out; else from its own cell, and the latter is an error.
    """
    find = _by_place if strict else _by_value
    names = p.catIds if p.useCats or strict else [-1]
    images = list(p.imgIds) if strict else list(dict.fromkeys(p.imgIds))
    limits = list(p.maxDets)
    kept = _by_place("maxDets", limits, evaluated.maxDets) if strict else range(len(limits))
    if not strict:
        _by_value("maxDets", limits, evaluated.maxDets)
    return Selection(
        find("catIds", list(names), evaluated.catIds if evaluated.useCats else [-1]),
        find("areaRng", [tuple(pair) for pair in p.areaRng], [tuple(pair) for pair in evaluated.areaRng]),
        None if images == list(evaluated.imgIds) else find("imgIds", images, evaluated.imgIds),
        [limits[m] for m in kept],
        (len(evaluated.areaRng), len(evaluated.imgIds)),
    )


def limit_positions(limits: list[int], evaluated: list[int]) -> list[int]:
    """Positions of ``limits`` among those evaluated."""
    return list(range(len(limits))) if limits == list(evaluated) else [evaluated.index(limit) for limit in limits]


def _by_place(name: str, wanted: Sequence[Any], known: Sequence[Any]) -> Positions:
    members = set(known)
    return [place for place, value in enumerate(wanted) if value in members]


def _by_value(name: str, wanted: Sequence[Any], known: Sequence[Any]) -> Positions:
    places = {value: place for place, value in reversed(list(enumerate(known)))}
    unknown = [value for value in wanted if value not in places]
    if unknown:
        raise InputError(f"params.{name} must hold only what was evaluated but has {unknown[0]}")
    return [places[value] for value in wanted]
