"""DetectionErrors: the result of an error analysis as table, text and picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.analysis.tide_mend import GAIN_NAMES, MAIN_KINDS
from valor_gpu.errors import InputError
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.html import result_html
from valor_gpu.exports.signature import Signature
from valor_gpu.result_data import ResultData

_SHOWN_COUNTS = ("images", "ground_truths", "hits", "ignored")


class DetectionErrors(ResultData):
    """Gains of mending each kind of error, at one pair of thresholds or at several.

    ``values`` has ``ap``, ``gains`` by kind, ``ap_per_class``, ``gains_per_class`` and ``counts_per_class`` by kind and
    class; at several pairs these under the text of each pair, such as ``0.75``, with ``counts`` among them.

    Example:
        >>> import torch
        >>> from valor_gpu.detection import MeanAveragePrecision
        >>> metric, box = MeanAveragePrecision(errors=True), torch.tensor([[0.0, 0.0, 10.0, 10.0]])
        >>> dog = {"boxes": box, "scores": torch.tensor([0.9]), "labels": torch.tensor([2])}
        >>> metric.update([dog], [{"boxes": box, "labels": torch.tensor([1])}])
        >>> errors = metric.result().errors([0.5, 0.75])
        >>> errors.at(0.75).counts["classification"], errors.table().rows()[0]["share"]
        (1, 1.0)
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return DetectionErrors, super().__reduce__()[1]

    def parts(self) -> dict[str, DetectionErrors]:
        """Returns a result for each pair of thresholds by its text, such as ``0.75``."""
        if "ap" in self.values:
            return {f"{self.signature['iou']:g}": self}
        pairs = zip(self.values, self.signature["iou"], self.signature["background"])
        return {text: self._part(text, iou, background) for text, iou, background in pairs}

    def at(self, iou: float) -> DetectionErrors:
        """Returns the result at one IoU threshold.

        Raises:
            InputError: ``iou`` is not among the thresholds, or is there with several ``background``.
        """
        parts = self.parts()
        found = [part for part in parts.values() if part.signature["iou"] == iou]
        if len(found) != 1:
            raise InputError(f"iou must be one of {', '.join(parts)}, once, but got {iou}")
        return found[0]

    def table(self) -> ColumnTable:
        """Returns a table with a row for each pair of thresholds and kind of error.

        Columns are ``iou``, ``background``, ``kind``, ``count``, ``gain`` and ``share``: of the sum of the gains above
        0 of the six main kinds; NaN for all false positives and all false negatives, which are not among them.
        """
        rows = [row for part in self.parts().values() for row in part._rows()]
        names = ("iou", "background", "kind", "count", "gain", "share")
        return ColumnTable(dict(zip(names, map(list, zip(*rows)))), dict(self.signature))

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        gains = self.values["gains"]
        total = math.fsum(gains[kind] for kind in MAIN_KINDS if gains[kind] > 0)
        for kind in GAIN_NAMES:
            share = max(gains[kind], 0.0) / total if total and kind in MAIN_KINDS else math.nan
            thresholds = self.signature["iou"], self.signature["background"]
            yield *thresholds, kind, self.counts[kind], gains[kind], share

    def _part(self, text: str, iou: float, background: float) -> DetectionErrors:
        values: Mapping[str, Any] = self.values[text]
        start = f"{text}/"
        return DetectionErrors(
            {name: value for name, value in values.items() if name != "counts"},
            Signature({**self.signature, "iou": iou, "background": background}), values["counts"],
            {name[len(start):]: why for name, why in self.reasons.items() if name.startswith(start)}, plot_errors,
        )  # fmt: skip

    def __str__(self) -> str:
        tables = [part._text() for part in self.parts().values()]
        return "\n".join([*tables, str(self.signature)])

    def _text(self) -> str:
        ap, signature = self.values["ap"], self.signature
        head = f"AP {_number(ap)} at IoU {signature['iou']:g}, background up to {signature['background']:g}"
        lines = [head if not math.isnan(ap) else f"{head}: {self.reason('ap')}"]
        lines.append(f"{'kind':<15} {'count':>9} {'gain':>8} {'share':>7}")
        for _, _, kind, count, gain, share in self._rows():
            note = self.reason(f"gains/{kind}") if math.isnan(gain) and not math.isnan(ap) else None
            part = "" if math.isnan(share) else f"{share:.1%}"
            lines.append(f"{kind:<15} {count:>9,} {_number(gain, '+'):>8} {part:>7}  {note or ''}".rstrip())
        lines.append(", ".join(f"{name} {self.counts[name]:,}" for name in _SHOWN_COUNTS))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Tables for notebooks, with the gains of all classes unfolded."""
        entries = (
            (f"{name}/{key}", None, value, why) if name == "gains" else (name, key, value, why)
            for name, key, value, why in self._entries()
        )
        return result_html(entries, self.counts, str(self.signature), self.intervals)


def _number(value: float, sign: str = "") -> str:
    return "-" if sign and math.isnan(value) else f"{value:{sign}.4f}"


def plot_errors(result: DetectionErrors, ax: Any = None, source: str | None = None, resize: bool = False) -> Any:
    """Draws the gain of each kind of error as a bar, with its count; returns the axes.

    Args:
        result: at one pair of thresholds.
        ax: matplotlib axes, or None for new ones.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.

    Raises:
        InputError: the result has several pairs of thresholds.
    """
    from valor_gpu.drawing import GRID, axes_to_draw, count, say_empty, titled

    if "ap" not in result.values:
        raise InputError(f"plot needs one pair of thresholds but the result has {', '.join(result.values)}: use at()")
    axes = axes_to_draw(ax, (7.4, 3.8), resize)
    gains, ap = result.values["gains"], result.values["ap"]
    for place, kind in enumerate(GAIN_NAMES):
        gain = 0.0 if math.isnan(gains[kind]) else gains[kind]
        axes.barh(place, gain, color="#0072B2" if kind in MAIN_KINDS else "0.6", height=0.72)
        text = f" {_number(gains[kind], '+')}, {result.counts[kind]:,}"
        axes.text(max(gain, 0.0), place, text, va="center", fontsize="small")
    axes.set_yticks(range(len(GAIN_NAMES)), [kind.replace("_", " ") for kind in GAIN_NAMES])
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlabel("gain of AP once all errors of the kind are mended, and their count")
    axes.grid(axis="x", **GRID)
    axes.set_axisbelow(True)
    if math.isnan(ap):
        say_empty(axes, "no ground truth counts, so there is no AP")
    signature = result.signature
    details = [f"background up to {signature['background']:g}", f"protocol {signature['protocol']}",
               count(result.counts["images"], "image")]  # fmt: skip
    titled(axes, f"Errors at IoU {signature['iou']:g}, AP {_number(ap)}", details, source)
    return axes
