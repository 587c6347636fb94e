"""OperatingPoints: the result of :meth:`valor_gpu.result.Result.operating_points`, its picture, and text to paste."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from valor_gpu.analysis.score_rankings import Ranking
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.exports.intervals import bounds_text, exists, interval_lines
from valor_gpu.exports.table_text import table_text
from valor_gpu.result_data import ResultData, require_matplotlib

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


class OperatingPoints(ResultData):
    """Thresholds, and precision, recall and F there, of every class and of all classes at one threshold.

    Intervals are those of the choice too: each replicate chooses its thresholds anew.
    To pickle it gives a plain :class:`valor_gpu.result_data.ResultData`, without :meth:`lines` and :meth:`plot`.

    Args:
        result: the numbers.
        f_name: name of the F, such as ``f1``.
        pooled: the ranking of all detections.
        rankings: that of each class by its name.
    """

    def __init__(self, result: ResultData, f_name: str, pooled: Ranking, rankings: Mapping[str, Ranking]) -> None:
        vars(self).update(vars(result), _f_name=f_name, _pooled=pooled, _rankings=rankings)

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
        names = [name for name in self.values if f"{name}_per_class" in self.values]
        keys = [None, *vars(self)["_rankings"]]
        rows = [(key, [self._number(name, key) for name in names]) for key in keys]
        rows = [(key, numbers) for key, numbers in rows if key is None or not math.isnan(numbers[0])]
        columns: dict[str, list[Any]] = {"class": ["all together" if key is None else key for key, _ in rows]}
        for place, name in enumerate(names):
            columns[name] = [numbers[place] for _, numbers in rows]
            if self.intervals:
                columns[f"{name} interval"] = [self._bounds(name, key) for key, _ in rows]
        counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items() if count)
        why = [] if not math.isnan(rows[0][1][0]) else [f"all together: {self.reason(_COMMON)}"]
        return table_text(columns, len(rows), [*why, counts, str(self.signature), *interval_lines(self.intervals)])

    def _number(self, name: str, key: str | None) -> float:
        found: float = self.values[name] if key is None else self.values[f"{name}_per_class"][key]
        return found

    def _bounds(self, name: str, key: str | None) -> str:
        interval = self.intervals.get(name if key is None else f"{name}_per_class/{key}")
        return "" if interval is None or not exists(interval) else bounds_text(interval)

    def lines(self, form: str) -> str:
        """Returns text to paste into a program that uses the thresholds.

        The programs keep scores above a threshold, so each number lies a little below the lowest score that is kept,
        and not below the highest that is left out. A class without a threshold has the common
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
    """Returns the number of few digits, at least four, that is closest below ``high`` and at least ``low``.

    Example:
        >>> between(0.31234, 0.31301), between(0.0, 0.9), between(0.5, 0.50000012)
        (0.313, 0.8999, 0.5)
    """
    for digits in range(4, _DIGITS + 1):
        scale = 10.0**digits
        steps = math.floor(high * scale)
        rounded = round((steps if steps / scale < high else steps - 1) / scale, digits)
        if low <= rounded < high:
            return rounded
    return low
