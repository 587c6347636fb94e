"""Options of ``valor-gpu detect`` that say why the numbers are as they are: errors, thresholds, tables, the report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from valor_gpu.cli.options import check_outputs, count, output_path, paths_of, score
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.analysis.slices import Slices
    from valor_gpu.progress import Progress
    from valor_gpu.report.document import Inputs
    from valor_gpu.result import Result
    from valor_gpu.stats.intervals import Bootstrap

_PURPOSES = "beta=1, precision=0.9, recall=0.8 or cost=1,5"
_OPTIONS = ("errors", "operating_points", "images_csv", "matches", "report")
"""Each alone asks for an answer; the others need one of them."""
_NEEDED = {
    "errors_protocol": ("errors", "report"),
    "operating_lines": ("operating_points",),
    "analysis_iou": _OPTIONS,
    "analysis_score": ("images_csv", "matches", "report"),
    "report_count": ("report",),
}
"""Options, and those of which they need one."""
_BACKGROUND = 0.1
"""IoU up to which a false positive shows background."""
_ENDS = {
    "operating_lines": (".yaml", ".yml"),
    "images_csv": (".csv", ".parquet"),
    "matches": (".csv", ".parquet", ".json"),
    "report": (".html", ".htm"),
}
"""Options that write files, and the ends of their names."""


class Answers(NamedTuple):
    """What was asked about the errors.

    Attributes:
        texts: printed after the numbers.
        documents: keys of ``--json``.
        notes: of the files that were written.
    """

    texts: list[str]
    documents: dict[str, Any]
    notes: list[str]


def add_analysis_options(command: argparse.ArgumentParser) -> None:
    """Adds the options."""
    add = command.add_argument
    add("--errors", action="store_true",
        help="print how much AP each kind of error costs: classification, localization, both, duplicate, background,"
        " missed (TIDE); in --json as errors")  # fmt: skip
    add("--errors-protocol", choices=("coco", "tidecv"),
        help="of --errors: coco (default), whose AP is that of the evaluation, or tidecv, the numbers of the program"
        " tidecv 1.0.1")  # fmt: skip
    add("--operating-points", type=_purpose, nargs="?", const={"beta": 1.0}, metavar="PURPOSE",
        help=f"print the score threshold of each class that serves a purpose: {_PURPOSES} (a false positive, a missed"
        " object); without PURPOSE the best F1; in --json as operating_points")  # fmt: skip
    add("--operating-lines", type=output_path, metavar="FILE",
        help="with --operating-points: write the threshold of each class as YAML")  # fmt: skip
    add("--images-csv", type=output_path, metavar="FILE",
        help="write a table with a row per image, as .csv or .parquet: correct, wrong and missed objects, F1 and"
        " mean IoU")  # fmt: skip
    add("--matches", type=output_path, metavar="FILE",
        help="write every detection and every missed ground truth with what became of it and the kind of its error, as"
        " .csv or .parquet; or as .json the wrong detections and missed ground truths alone, as COCO annotations for"
        " labelling tools")  # fmt: skip
    add("--report", type=output_path, metavar="FILE",
        help="write all of it as one .html file, which needs no network: numbers, errors, classes, thresholds,"
        " confusions and the worst images, on the photos of --images DIR")  # fmt: skip
    add("--report-count", type=count, metavar="N", help="images that --report draws at most: default 12")
    add("--analysis-iou", type=score, metavar="T",
        help="IoU (of keypoints, OKS) from which on a detection is correct for these options: default 0.5")  # fmt: skip
    add("--analysis-score", type=score, metavar="S",
        help="leave detections below this score out of --images-csv, --matches and the confusions and images of"
        " --report: default, none; of --report, those below the threshold of the best F1")  # fmt: skip


def _purpose(text: str) -> dict[str, Any]:
    """What thresholds are to serve: ``beta=1`` and so on."""
    name, _, value = text.partition("=")
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if name not in ("beta", "precision", "recall", "cost") or len(numbers) != 1 + (name == "cost"):
        raise argparse.ArgumentTypeError(f"must be {_PURPOSES} but got {text!r}")
    return {name: numbers if name == "cost" else numbers[0]}


def analysis_is_asked(options: argparse.Namespace) -> bool:
    """Whether there is one of these options."""
    return any(getattr(options, name) for name in _OPTIONS)


def check_analysis(options: argparse.Namespace) -> None:
    """Raises for options that do not go together, and for files that cannot be written."""
    for name, needed in _NEEDED.items():
        if getattr(options, name) is not None and not any(getattr(options, each) for each in needed):
            those = " or ".join(map(_flag, needed))
            raise InputError(f"{_flag(name)} needs {those} but that is missing: add it, or leave {_flag(name)} out")
    iou = options.analysis_iou
    if iou is not None and not 0 < iou <= 1:
        raise InputError(f"--analysis-iou must be above 0 and at most 1 but got {iou:g}")
    outputs = [(_flag(name), getattr(options, name)) for name in _ENDS]
    for (flag, path), ends in zip(outputs, _ENDS.values()):
        if path is not None and path.suffix.lower() not in ends:
            raise InputError(f"{flag} must end in {' or '.join(ends)} but got {path}")
    others = (("--gt", options.gt), ("--dt", options.dt), ("--json", options.json), ("--plot", options.plot),
              ("--overlay", options.overlay))  # fmt: skip
    check_outputs(outputs, paths_of([(flag, None if path is None else str(path)) for flag, path in others]))
    _check_thresholds(options)
    if options.report is not None and options.images is not None and not os.path.isdir(options.images):
        got = "is a file" if os.path.exists(options.images) else "does not exist"
        raise InputError(f"--images must be a folder but {options.images} {got}")
    _check_modules(options)


def _check_thresholds(options: argparse.Namespace) -> None:
    """Raises for an IoU that no question has, and for a purpose that no threshold has."""
    iou = options.analysis_iou
    if iou is not None and not 0 < iou <= 1:
        raise InputError(f"--analysis-iou must be above 0 and at most 1 but got {iou:g}")
    kinds = [_flag(name) for name in ("errors", "matches", "report") if getattr(options, name)]
    if iou is not None and kinds and options.iou_type != "keypoints" and iou <= _BACKGROUND:
        raise InputError(
            f"--analysis-iou must be above {_BACKGROUND}, up to which a detection shows background to {kinds[0]}, but"
            f" got {iou:g}"
        )
    if options.operating_points is not None:
        from valor_gpu.analysis.thresholds import Purpose

        Purpose.of(**options.operating_points)


def _check_modules(options: argparse.Namespace) -> None:
    """Raises where a package is missing that a file needs."""
    from valor_gpu.exports.frames import imported

    for name in ("images_csv", "matches"):
        path = getattr(options, name)
        if path is not None and path.suffix.lower() == ".parquet":
            imported("pyarrow.parquet", "arrow", f"{_flag(name)} with .parquet")
    if options.report is not None and options.images is not None:
        imported("PIL.Image", "images", "--report with --images")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def answers(
    options: argparse.Namespace,
    result: Result,
    inputs: Inputs | None,
    progress: Progress,
    slices: Slices | None = None,
    intervals: Bootstrap | None = None,
) -> Answers:
    """Answers what the options ask, and writes their files.

    Args:
        options: of the command.
        result: with its numbers.
        inputs: the input files.
        progress: takes one step, where something is asked.
        slices: of ``--by``, for the report.
        intervals: of ``--intervals``, for the operating points.
    """
    found = Answers([], {}, [])
    if not analysis_is_asked(options):
        return found
    from valor_gpu.exports.texts import utf8
    from valor_gpu.report.detection import point_table
    from valor_gpu.report.files import write_file

    progress.step("explaining the errors")
    iou = {} if options.analysis_iou is None else {"iou": options.analysis_iou}
    above = {} if options.analysis_score is None else {"score": options.analysis_score}
    errors = points = None
    if options.errors or options.errors_protocol is not None:
        errors = result.errors(**iou, protocol=options.errors_protocol or "coco")
        if options.errors:
            found.texts.append(str(errors))
            found.documents["errors"] = errors.to_dict()
    if options.operating_points is not None:
        points = result.operating_points(**options.operating_points, **iou, intervals=intervals)
        found.texts.append(point_table(points))
        found.documents["operating_points"] = points.to_dict()
        if options.operating_lines is not None:
            write_file(options.operating_lines, utf8(points.lines("yaml")))
            found.notes.append(f"wrote {options.operating_lines}")
    if options.images_csv is not None:
        _write(found, options.images_csv, _table_writer(result.images(**iou, **above), options.images_csv))
    if options.matches is not None:
        _write(found, options.matches, _table_writer(result.matches(**iou, **above), options.matches))
    if options.report is not None:
        given = {"errors": errors, "operating_points": points, "slices": slices}
        _write_report(options, result, inputs, found, {**iou, **above, **given})
    return found


def _write(found: Answers, path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file that replaces an older one at once, and notes it."""
    from valor_gpu.report.files import file_for

    with file_for(path) as part:
        write(part)
    found.notes.append(f"wrote {path}")


_FORMATS = {".csv": "to_csv", ".parquet": "to_parquet", ".json": "to_coco"}
"""Methods of tables by the end of the name of the file; that of a part of it may be another."""


def _table_writer(table: Any, path: Path) -> Callable[[Path], Any]:
    """What writes a table in the format of the file."""
    write: Callable[[Path], Any] = getattr(table, _FORMATS[path.suffix.lower()])
    return write


def _write_report(
    options: argparse.Namespace, result: Result, inputs: Inputs | None, found: Answers, choices: dict[str, Any]
) -> None:
    from valor_gpu.exports.texts import utf8
    from valor_gpu.report.detection_html import detection_report
    from valor_gpu.report.files import write_file

    problems: list[str] = []
    if options.report_count is not None:
        choices["worst"] = options.report_count
    page = detection_report(
        result,
        os.path.basename(options.dt),
        photos=None if options.images is None else Path(options.images),
        files=None if inputs is None else inputs.describe(),
        on_problem=problems.append,
        **choices,
    )
    write_file(options.report, utf8(page))
    found.notes.append(f"wrote {options.report}")
    for problem in problems[:1]:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        print(f"valor-gpu {options.command}: warning: not in the report: {problem}{more}", file=sys.stderr)
