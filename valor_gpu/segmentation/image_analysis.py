"""What results of segmentation answer about their images, from what is kept of each image. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.base import Analysis
from valor_gpu.errors import InputError
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.leaves import leaves
from valor_gpu.exports.texts import is_scalar
from valor_gpu.result import Result, Signature
from valor_gpu.segmentation.image_table import image_table
from valor_gpu.segmentation.resampled_images import ResampledImages, no_images
from valor_gpu.stats.resample import Resampled

Ints = NDArray[np.int64]
NO_SEGMENTS = "no segment of the images counts for it, or none has a match"
_PORTION = 64
"""Groups of images whose numbers are computed at a time."""


@frozen
class Template:
    """What the results of groups of images share with that of all images.

    Attributes:
        values: of the result of all images.
        signature: its choices.
        absent: why a number of a group does not exist.
        file_names: of the images, None where they are not known.
        other_file_names: of the photos that the images are label maps of, None likewise.
    """

    values: Mapping[str, Any]
    signature: Signature
    absent: str
    file_names: Sequence[str] | None = None
    other_file_names: Sequence[str] | None = None


class ImageAnalysis(Analysis):
    """Answers of a metric that keeps counts or scores of each image.

    Args:
        state: the images.
        template: of the results of groups.
    """

    def __init__(self, state: ResampledImages, template: Template) -> None:
        self.metric = str(template.signature.get("metric", "the metric"))
        self.images, self.image_ids = state.units, state.ids
        self._state, self._template = state, template

    def file_names(self) -> Sequence[str] | None:
        """Returns the names of the files of the images, None where they are not known."""
        return self._template.file_names

    def other_file_names(self) -> Sequence[str] | None:
        """Returns the names of the photos, None where they are not known."""
        return self._template.other_file_names

    def reason_of(self, name: str, empty: bool) -> str:
        """Returns why a number of a group of images does not exist."""
        return self._template.absent

    def image_table(self, **choices: Any) -> ColumnTable:
        """Returns the numbers of every image; see :meth:`valor_gpu.result.Result.images`."""
        return image_table(self, self._state, self._template.signature, **choices)

    def numbers_of(self, groups: Sequence[Ints]) -> Sequence[Mapping[str, float]]:
        """Computes the numbers of groups of images from their sums; see :class:`Analysis`."""
        found: list[Mapping[str, float]] = []
        for first in range(0, len(groups), _PORTION):
            part = groups[first : first + _PORTION]
            weights = np.zeros((self.images, len(part)), np.uint8)
            for column, group in enumerate(part):
                weights[group, column] = 1
            numbers = self._state.weighted(weights)
            found += [{name: float(values[c]) for name, values in numbers.items()} for c in range(len(part))]
        return found

    def result_of(self, images: Ints) -> Result:
        """Computes the numbers of some images; counts of their pixels are not known."""
        numbers, template = self.numbers_of([images])[0], self._template
        filled = {name: _filled(name, each, numbers) for name, each in template.values.items()}
        values = {name: value for name, value in filled.items() if value is not None}
        missing = [name for name, value in leaves(values) if np.isnan(value).any()]
        reasons, counts = dict.fromkeys(missing, template.absent), {"images": len(images)}
        return Result(values, template.signature, counts, reasons, state=partial(self._state.subset, images))


def image_result(
    values: Mapping[str, Any],
    signature: Signature,
    counts: Mapping[str, int],
    reasons: Mapping[str, str],
    state: Callable[[], Resampled],
    absent: str = "no pixel of the images counts for it",
    file_names: Sequence[str] | None = None,
    other_file_names: Sequence[str] | None = None,
    **more: Any,
) -> Result:
    """Returns a result that is asked about its images, where the metric keeps them.

    Args:
        values: of :class:`Result`, likewise the next three.
        signature: the choices.
        counts: how many there were of what.
        reasons: why numbers are NaN.
        state: returns the images, or raises where they are not kept.
        absent: why a number of a group of images does not exist.
        file_names: of the images, None where they are not known.
        other_file_names: of their photos, None likewise.
        more: keyword arguments of :class:`Result`.
    """
    template = Template(values, signature, absent, file_names, other_file_names)
    known = state is not no_images
    analysis = partial(_analysis, state, template) if known else UnknownImages(str(signature.get("metric")))
    return Result(values, signature, counts, reasons, state=state, analysis=analysis, **more)


def _analysis(state: Callable[[], Resampled], template: Template) -> ImageAnalysis:
    found = state()
    assert isinstance(found, ResampledImages)
    return ImageAnalysis(found, template)


class UnknownImages(Analysis):
    """Answers of a metric that keeps sums over images: questions about images raise :class:`InputError`.

    Args:
        metric: its name.
    """

    image_ids = None
    images = 0

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def by(self, table: Any, columns: Sequence[str | Sequence[str]], **choices: Any) -> NoReturn:
        """Raises; see :meth:`valor_gpu.result.Result.by`."""
        raise _unknown("by")

    def worst_slices(self, table: Any, columns: Sequence[str], **choices: Any) -> NoReturn:
        """Raises; see :meth:`valor_gpu.result.Result.worst_slices`."""
        raise _unknown("worst_slices")

    def image_table(self, **choices: Any) -> NoReturn:
        """Raises; see :meth:`valor_gpu.result.Result.images`."""
        raise _unknown("images")


def _unknown(name: str) -> InputError:
    return InputError(f"{name}() needs the counts of every image: make the metric with keep_images=True")


def _filled(name: str, whole: Any, numbers: Mapping[str, float]) -> Any:
    """A value of a result with the numbers of a group in its place; None where they are not known."""
    if isinstance(whole, Mapping):
        found = {key: numbers[f"{name}/{key}"] for key in whole if f"{name}/{key}" in numbers}
        return found or None
    if is_scalar(whole):
        return numbers.get(name)
    places = [f"{name}/{','.join(map(str, place))}" for place in np.ndindex(*whole.shape)]
    known = bool(places) and places[0] in numbers
    return np.array([numbers[place] for place in places]).reshape(whole.shape) if known else None
