"""The report of a detection result as one HTML file: numbers, errors, classes, thresholds, confusions, images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from valor_gpu.analysis.confusion import class_confusion
from valor_gpu.analysis.detection import DetectionAnalysis
from valor_gpu.analysis.slices import Slices
from valor_gpu.analysis.tide_result import DetectionErrors
from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.errors import InputError
from valor_gpu.pages.markup import page, section, tag, warning
from valor_gpu.pages.texts import Html
from valor_gpu.report.detection_sections import choice_section, class_section, head, number_section
from valor_gpu.report.document import versions
from valor_gpu.report.error_sections import confusion_section, costs_of, error_section, slice_section
from valor_gpu.report.image_sections import image_section
from valor_gpu.report.point_section import common_threshold, point_section
from valor_gpu.report.scenes import STYLE
from valor_gpu.result import Result

_STYLE = f"""{STYLE}
.figs.narrow {{ grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); }}
@media (max-width: 40rem) {{ .figs.narrow {{ grid-template-columns: repeat(2, minmax(0, 1fr)); }} }}
.figs.narrow svg.chart {{ width: 100%; }}
.figs.scenes {{ grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }}
table.even td.n, table.even th.n {{ min-width: 5.2rem; }}
details > .scroll {{ margin-top: var(--s2); }}
section h3 {{ margin-top: var(--s2); }}
"""
_Section = tuple[str, str, Html]


def detection_report(
    result: Result,
    title: str = "Detection report",
    *,
    errors: DetectionErrors | None = None,
    operating_points: Result | None = None,
    slices: Slices | None = None,
    iou: float = 0.5,
    score: float | None = None,
    worst: int = 12,
    photos: Path | None = None,
    files: Mapping[str, Mapping[str, Any]] | None = None,
    iou_type: str | None = None,
    on_problem: Callable[[str], None] | None = None,
) -> str:
    """Returns a page that a browser shows without a network and without a script, light and dark, also printed.

    It has the numbers with their intervals, the gains of mending each kind of error, the classes from the worst on,
    score thresholds, confusions of classes, slices, the images with most errors, and the choices behind all of them.
    A section that the result cannot answer says why. Equal arguments give equal bytes.

    Args:
        result: of a detection evaluation.
        title: of the page, such as the name of the model.
        errors: of :meth:`~valor_gpu.result.Result.errors`; None: that at ``iou``.
        operating_points: of :meth:`~valor_gpu.result.Result.operating_points`; None: those of the best F1 at ``iou``.
        slices: of :meth:`~valor_gpu.result.Result.by`; None: no section.
        iou: from which on a detection matches, for confusions and images.
        score: detections below it are left out of confusions and images; None: the threshold of
            ``operating_points`` for all classes together.
        worst: images that are drawn at most.
        photos: folder of the images, by their ``file_name``; None: they are drawn on a plain canvas. Pillow reads them.
        files: what was read, by name: mappings with ``path``, ``bytes`` and ``sha256``.
        iou_type: which one of a result of several.
        on_problem: called with a sentence for each photo that cannot be used, which the page says too.

    Raises:
        InputError: an argument is out of range, or the result does not know the data that it came from.
        MissingExtraError: ``photos`` is given but Pillow is not installed.

    Example:
        >>> from pathlib import Path
        >>> page = detection_report(result, "yolo-m, epoch 40")  # doctest: +SKIP
        >>> Path("report.html").write_text(page, encoding="utf-8")  # doctest: +SKIP
    """
    check_type("result", result, Result)
    check_int("worst", worst, 1)
    check_number("iou", iou, 0, 1)
    if score is not None:
        check_number("score", score)
    analysis = result._asked("detection_report", iou_type)
    if not isinstance(analysis, DetectionAnalysis):
        raise InputError(f"result must be of a detection evaluation but is of {analysis.metric}")
    gains, why_no_gains = _answered(errors, lambda: result.errors(iou, iou_type=iou_type))
    points, why_no_points = _answered(operating_points, lambda: result.operating_points(iou=iou, iou_type=iou_type))
    lowest = _lowest_score(points) if score is None else score
    parts: list[_Section] = [("numbers", "Numbers", number_section(result))]
    parts.append(("errors", "Errors", _or_why(gains, error_section, "errors", "Errors", why_no_gains)))
    classes = class_section(result, {} if gains is None else costs_of(gains))
    parts += [] if classes is None else [("classes", "Classes", classes)]
    parts.append(("points", "Thresholds", _or_why(points, point_section, "points", "Score thresholds", why_no_points)))
    parts += [] if slices is None else [("slices", "Slices", slice_section(slices))]
    if len(analysis.rows.classes) > 1:
        found, why = _answered(None, lambda: class_confusion(analysis, iou, lowest))
        parts.append(("confusion", "Confusions", _or_why(found, confusion_section, "confusion", "Confusions", why)))
    problem = (lambda text: None) if on_problem is None else on_problem
    drawn, why = _answered(None, lambda: image_section(analysis, iou, lowest, worst, photos, problem))
    parts.append(("images", "Images", _or_why(drawn, lambda part: part, "images", "Images", why)))
    known = versions()
    parts.append(("choices", "Choices", choice_section(result, files or {}, known)))
    foot = tag(
        "footer",
        f"Made by valor_gpu {known['valor_gpu']}. A middle dot is a number that does not exist.",
        class_="small dim",
    )
    return page(f"{title} · detection report", "Detection report", parts, head(result, title), foot, _STYLE)


def _answered(known: Any, ask: Callable[[], Any]) -> tuple[Any, str]:
    """What is known or can be answered, or None and why it cannot."""
    if known is not None:
        return known, ""
    try:
        return ask(), ""
    except InputError as error:
        return None, str(error)


def _or_why(found: Any, shown: Callable[[Any], Html], name: str, heading: str, why: str) -> Html:
    """The section, or a note in its place."""
    return section(name, heading, warning(f"Not shown: {why}.")) if found is None else shown(found)


def _lowest_score(points: Result | None) -> float:
    """The common threshold of all classes; nothing is left out where there is none."""
    found = math.nan if points is None else common_threshold(points)
    return found if math.isfinite(found) else -math.inf
