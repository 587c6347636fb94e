"""OperatingPoints: the result of :meth:`valor_gpu.result.Result.operating_points`, its picture, and text to paste."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.analysis.score_rankings import Ranking
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.exports.intervals import bounds_text, exists
from valor_gpu.exports.result_text import result_text
from valor_gpu.exports.texts import value_text
from valor_gpu.result import Result, require_matplotlib
from valor_gpu.stats.intervals import Bootstrap

_COMMON = "score_threshold"
_DIGITS = 17
_LONGEST = 1024
"""Characters of a key of YAML that needs no mark."""
_NEAR = 1e-4
"""Relative distance below the lowest score of all at which a threshold is set, where nothing is left out."""

_ULTRALYTICS = """\
# Ultralytics keeps detections whose confidence is above conf.
results = model.predict(source, conf={common!r})  # one threshold for all classes

# A threshold for each class:
thresholds = {thresholds}
results = model.predict(source, conf=min(thresholds.values()))
for place, result in enumerate(results):
    pairs = zip(result.boxes.cls.tolist(), result.boxes.conf.tolist())
    results[place] = result[[conf > thresholds[result.names[int(label)]] for label, conf in pairs]]
"""
_DETECTRON2 = """\
# Detectron2 keeps detections whose score is above the threshold.
cfg.MODEL.ROI_HEADS.SCORE_THRESH_TEST = {common!r}  # one threshold for all classes

# A threshold for each class; names are those of MetadataCatalog.get(cfg.DATASETS.TEST[0]).thing_classes:
thresholds = {thresholds}
cfg.MODEL.ROI_HEADS.SCORE_THRESH_TEST = min(thresholds.values())  # before the predictor is made
instances = predictor(image)["instances"].to("cpu")
pairs = zip(instances.pred_classes.tolist(), instances.scores.tolist())
instances = instances[torch.tensor([score > thresholds[names[label]] for label, score in pairs], dtype=torch.bool)]
"""
FORMS = ("ultralytics", "detectron2", "yaml")


class OperatingPoints(Result):
    """Thresholds, and precision, recall and F there, of every class and of all classes at one threshold.

    To pickle it gives a plain :class:`valor_gpu.result.Result`, without :meth:`lines` and :meth:`plot`.

    Args:
        result: the numbers.
        f_name: name of the F, such as ``f1``.
        pooled: the ranking of all detections.
        rankings: that of each class by its name.
    """

    def __init__(self, result: Result, f_name: str, pooled: Ranking, rankings: Mapping[str, Ranking]) -> None:
        vars(self).update(vars(result), _f_name=f_name, _pooled=pooled, _rankings=rankings)

    def with_intervals(self, intervals: int | Bootstrap = 1000) -> OperatingPoints:
        """Returns these points with an interval beside every number; thresholds are chosen anew in every replicate.

        Args:
            intervals: replicates of the bootstrap over images, or all of its choices.
        """
        own = vars(self)
        return OperatingPoints(super().with_intervals(intervals), own["_f_name"], own["_pooled"], own["_rankings"])

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draws precision, recall and F over score thresholds, and the chosen one; returns the axes.

        Args:
            ax: matplotlib axes; None makes new ones with pyplot.
            options: ``label``: of the class whose lines are drawn; by default all classes at one threshold.
                ``classes``: names of classes whose F is drawn, each with its point, in place of ``label``. ``source``:
                what was evaluated, for the title. ``resize``: fit the size of the figure to the picture.

        Raises:
            MissingExtraError: matplotlib is not installed.
            InputError: there is no such class.
        """
        require_matplotlib("OperatingPoints.plot")
        from valor_gpu.analysis.points_plot import plot_points

        own = vars(self)
        return plot_points(self, own["_f_name"], own["_pooled"], own["_rankings"], ax, **options)

    def __str__(self) -> str:
        common = {name: value for name, value in self.values.items() if not isinstance(value, Mapping)}
        text = result_text(common, self.counts, str(self.signature), self.reason, self.intervals)
        return "\n".join([*self._class_lines(list(common)), text])

    def _class_lines(self, names: list[str]) -> Iterator[str]:
        """Yields a table of the classes that have a threshold; F with its interval, where it has one."""
        rows = [["class", *names]]
        for name in vars(self)["_rankings"]:
            numbers = [self.values[f"{each}_per_class"][name] for each in names]
            if not math.isnan(numbers[0]):
                interval = self.intervals.get(f"{vars(self)['_f_name']}_per_class/{name}")
                bounds = [bounds_text(interval)] if interval is not None and exists(interval) else []
                rows.append([name, *map(value_text, numbers), *bounds])
        if len(rows) > 1:
            rows.append(["all at one threshold", *(value_text(self.values[each]) for each in names)])
            widths = [max(len(row[place]) for row in rows) for place in range(len(names) + 1)]
            for first, *cells in rows:
                aligned = (f"{cell:>{width}}" for cell, width in zip(cells, [*widths[1:], 0]))
                yield "  ".join([f"{first:<{widths[0]}}", *aligned]).rstrip()
            yield ""

    def lines(self, form: str) -> str:
        """Returns text to paste into a program that uses the thresholds.

        The programs keep scores above a threshold, so each number lies between the highest score that is left out and
        the lowest that is kept, with as few digits as tell both apart. A class without a threshold has the common
        one, and a comment says why; where to keep no detection costs least it has 1, which no score exceeds.

        Args:
            form: ``ultralytics``: ``conf`` of ``model.predict``, and a filter for classes. ``detectron2``:
                ``cfg.MODEL.ROI_HEADS.SCORE_THRESH_TEST``, and a filter for classes. ``yaml``: a mapping of class to
                threshold.

        Raises:
            InputError: ``form`` is none of these, or all classes together have no threshold.

        Example:
            See :meth:`valor_gpu.result.Result.operating_points`.
        """
        check_choice("form", form, FORMS)
        common = self._pasted(_COMMON, vars(self)["_pooled"])
        if common is None:
            raise InputError(f"lines needs a threshold of all classes: {self.reason(_COMMON)}")
        found, comments = {}, []
        for name, ranking in vars(self)["_rankings"].items():
            own = self._pasted(f"{_COMMON}_per_class/{name}", ranking)
            if own is None:
                reason = self.reason(f"{_COMMON}_per_class/{name}")
                comments.append(f"# {quoted(name)} has the common threshold: {reason}\n")
            found[name] = common if own is None else own
        head = f"# {self.signature}\n" + "".join(comments)
        if form == "yaml":
            keys = {name: quoted(name) for name in found}
            rows = (  # YAML has no longer keys without the mark
                f"{keys[name]}: {number!r}\n" if len(keys[name]) <= _LONGEST else f"? {keys[name]}\n: {number!r}\n"
                for name, number in found.items()
            )
            return (
                f"{head}# Keep detections whose score is above; all classes at one threshold: {common!r}\n"
                + "".join(rows)
            )
        template = _ULTRALYTICS if form == "ultralytics" else _DETECTRON2
        listed = "".join(f"    {name!r}: {number!r},\n" for name, number in found.items())
        return head + template.format(common=common, thresholds="{\n" + listed + "}")

    def _pasted(self, name: str, ranking: Ranking) -> float | None:
        """The threshold of a name, for programs that keep scores above it; None: there is none."""
        whole, per_class, of = name.partition("/")
        threshold = self.values[whole][of] if per_class else self.values[whole]
        if math.isnan(threshold):
            return 1.0 if "cost" in self.values and "cost" in str(self.reason(name)) else None
        place = ranking.thresholds.tolist().index(threshold)
        below = float(ranking.below[place])
        return between(threshold - abs(threshold) * _NEAR if math.isnan(below) else below, threshold)


def quoted(text: str) -> str:
    r"""Returns a text between double quotes as YAML reads it, on one line, whatever characters it has.

    Example:
        >>> print(quoted("café"), quoted("a\u2028b"), quoted("\ud800"))
        "café" "a\u2028b" "\ud800"
    """
    found = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else _escaped(ord(each)) for each in found)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def between(low: float, high: float) -> float:
    """Returns a number of few digits that is at least ``low`` and below ``high``: their middle, rounded.

    Example:
        >>> between(0.31234, 0.31301), between(0.0, 0.9), between(0.5, 0.5000001)
        (0.313, 0.5, 0.5)
    """
    middle = low + (high - low) / 2
    rounded = (round(middle, digits) for digits in range(1, _DIGITS + 1))
    return next((number for number in rounded if low <= number < high), low)
