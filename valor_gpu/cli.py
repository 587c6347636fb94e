"""The command ``valor-gpu``.

Exit status: 0 fine; 2 the command line or the data cannot be used, and standard error says where; 1 another failure;
130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from valor_gpu._version import __version__
from valor_gpu.errors import InputError, ValorError
from valor_gpu.report.text import plural

if TYPE_CHECKING:
    from pathlib import Path  # which loads urllib; a run without output files needs no paths but texts

    from valor_gpu.coco import COCOeval
    from valor_gpu.inputs.predictions import Predictions
    from valor_gpu.report.classify import Evaluated
    from valor_gpu.report.document import Inputs
    from valor_gpu.report.progress import Progress
    from valor_gpu.result import Result

STANDARD_INPUT = "-"
OK, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_JSON_HELP = (
    "write all numbers, counts, choices and reasons for missing numbers, explained in docs/json.md; - prints them on"
    " standard output in place of the report"
)
_QUIET_HELP = "print no report; errors and warnings still go to standard error"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        argv: arguments, default: the arguments of the process.

    Returns:
        The exit status. A command line that argparse rejects, ``--help`` and ``--version`` raise SystemExit instead.
    """
    options = parser().parse_args(argv)
    try:
        with _any_character(sys.stdout):
            options.run(options)
    except InputError as error:
        return _complain(options.command, error, BAD_INPUT)
    except (ValorError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at exit
            return FAILURE
        return _complain(options.command, error, FAILURE)
    except MemoryError as error:
        return _complain(options.command, f"not enough memory: {error}".removesuffix(": "), FAILURE)
    except KeyboardInterrupt:
        return _complain(options.command, "interrupted", INTERRUPTED)
    return OK


@contextlib.contextmanager
def _any_character(stream: TextIO | None) -> Iterator[None]:
    """Shows as escapes the characters that the encoding of ``stream`` lacks, as standard error does; flushes it."""
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    errors = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
        stream.flush()
    finally:
        with contextlib.suppress(OSError):  # of what could not be flushed, which has its own error
            stream.reconfigure(errors=errors)


def _complain(command: str, error: object, status: int) -> int:
    print(f"valor-gpu {command}: error: {error}", file=sys.stderr)
    return status


def parser() -> argparse.ArgumentParser:
    """The whole command line; docs/cli.md is made from it."""
    # Whoever needs help gets it as wide as the terminal; to find out loads shutil, which building does without.
    narrow: dict[str, Any] = {"formatter_class": lambda prog: argparse.HelpFormatter(prog, width=80)}
    about = "Evaluation metrics where the tensors already are."
    whole = argparse.ArgumentParser("valor-gpu", description=about, **narrow)
    whole.add_argument("--version", action="version", version=f"valor_gpu {__version__}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="command")
    for name, add_options, about in (
        ("detect", _add_detect, "average precision and recall of boxes, from COCO JSON files"),
        ("classify", _add_classify, "accuracy, F1, ROC AUC, calibration and more of a classifier, from one table"),
        ("doctor", _add_doctor, "versions, devices, and which kernel serves each op, and why"),
    ):
        text = f"{about[0].upper()}{about[1:]}."
        command = commands.add_parser(name, help=about, description=text, allow_abbrev=False, **narrow)
        add_options(command)
        command.formatter_class = argparse.HelpFormatter
    whole.formatter_class = argparse.HelpFormatter
    return whole


def _add_detect(detect: argparse.ArgumentParser) -> None:
    add = detect.add_argument
    add("--gt", type=_input, required=True, metavar="FILE",
        help="ground truth: COCO JSON (or .gz, or -) with images, annotations and categories")  # fmt: skip
    add("--dt", type=_input, required=True, metavar="FILE",
        help="detections: JSON array (or .gz, or -) of objects with image_id, category_id, bbox, score")  # fmt: skip
    add("--device", type=_device, default="cpu", help="where to match and accumulate: cpu (default), cuda or cuda:N")
    add("--convention", choices=("strict", "corrected"), default="strict",
        help="strict (default): as pycocotools to the last bit; corrected: without its quirks")  # fmt: skip
    add("--per-class", action="store_true", help="also print one line per class")
    add("--plot", type=_output, metavar="FILE", help="draw precision over recall as .png, .svg, .pdf, ...")
    add("--json", type=_output, metavar="FILE", help=_JSON_HELP)
    add("--quiet", action="store_true", help=_QUIET_HELP)
    detect.set_defaults(run=_detect)


def _add_classify(classify: argparse.ArgumentParser) -> None:
    add = classify.add_argument
    add("--data", type=_input, required=True, metavar="FILE",
        help="table with one row per sample: .csv, .tsv, .jsonl (or .gz of these), .parquet, .npz; or -")  # fmt: skip
    add("--target", required=True, metavar="COLUMN", help="true class, by name")
    source = classify.add_mutually_exclusive_group(required=True)
    source.add_argument("--scores", type=_names, metavar="COLUMN[,COLUMN...]",
        help="probabilities or logits: one column per class, of lists, or of the second class")  # fmt: skip
    source.add_argument("--scores-prefix", metavar="PREFIX",
        help="in place of --scores: every column whose name is PREFIX and the name of a class")  # fmt: skip
    source.add_argument("--pred", metavar="COLUMN", help="in place of scores: predicted class, by name")
    add("--labels", type=_names, metavar="NAME[,NAME...]",
        help="names of the classes in the order of the scores; default: names of columns, or 0, 1 ...")  # fmt: skip
    add("--ignore", metavar="NAME", help="leave out the rows whose target is NAME")
    add("--weight", metavar="COLUMN", help="weight of each sample")
    add("--average", choices=("macro", "micro", "weighted"), default="macro",
        help="mean over classes: unweighted (macro, default), pooled (micro), by samples (weighted)")  # fmt: skip
    add("--thresholds", type=_thresholds, metavar="N",
        help="compute ROC AUC, average precision and curves at N thresholds from 0 to 1; default: exact")  # fmt: skip
    add("--device", type=_device, default="cpu", help="where to count: cpu (default), cuda or cuda:N")
    add("--per-class", action="store_true", help="also print one line per class")
    add("--plot", type=_paths, default=[], metavar="FILE[,FILE...]",
        help="draw pictures: names end in roc, pr, confusion or reliability, as in digits_roc.png")  # fmt: skip
    add("--normalize", choices=("true", "pred", "all"),
        help="confusion picture: show fractions of the true class, predicted class or all samples")  # fmt: skip
    add("--json", type=_output, metavar="FILE", help=_JSON_HELP)
    add("--quiet", action="store_true", help=_QUIET_HELP)
    classify.set_defaults(run=_classify)


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)


def _device(text: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"must be cpu, cuda or cuda:N but got {text!r}")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _input(text: str) -> str:
    """A path as pathlib writes it."""
    parts = "/".join(part for part in text.split("/") if part not in ("", "."))
    return ("/" if text.startswith("/") else "") + parts or "."


def _output(text: str) -> Path:
    from pathlib import Path

    return Path(text)


def _paths(text: str) -> list[Path]:
    return [_output(name) for name in _names(text)]


def _thresholds(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 2 but got {text!r}")
    return int(text)


def _doctor(options: argparse.Namespace) -> None:
    from valor_gpu.report.doctor import doctor_text, survey

    facts = survey()
    if options.json:
        import json

        print(json.dumps(facts, indent=2))
    else:
        print(doctor_text(facts))


def _detect(options: argparse.Namespace) -> None:
    from valor_gpu.report.progress import Progress

    pictures = [] if options.plot is None else [options.plot]
    _check_paths({"--gt": options.gt, "--dt": options.dt}, options.json, pictures)
    inputs = _inputs(options, ground_truths=options.gt, detections=options.dt)
    with Progress(5, sys.stderr, enabled=not options.quiet) as progress:
        try:
            evaluator = _evaluate(options, progress)
        except InputError as error:
            if _first_byte(options.gt) == b"[" and _first_byte(options.dt) == b"{":
                raise InputError(f"{error}: did you swap --gt and --dt?") from None
            raise
        progress.step("writing")
        result = evaluator.result()
        written = _write(options, evaluator, result, inputs)
    _warn(options, evaluator, result)
    if _reports(options):
        print(_report(options, evaluator, result, written))


def _first_byte(path: str) -> bytes:
    """The first byte of a JSON file that is not space; nothing of what can be read only once."""
    from valor_gpu.inputs.files import InputFile

    file = InputFile(path)
    if file.is_stream:
        return b""
    with file.open() as opened:
        return opened.read(64).lstrip()[:1]


def _inputs(options: argparse.Namespace, **files: str) -> Inputs | None:
    """The input files, whose hashes ``--json`` needs."""
    if options.json is None:
        return None
    from valor_gpu.report.document import Inputs

    return Inputs(files)


def _reports(options: argparse.Namespace) -> bool:
    """Whether the report is printed: not when standard output takes the JSON."""
    if options.quiet or options.json is None:
        return not options.quiet
    from valor_gpu.report.files import is_standard_output

    return not is_standard_output(options.json)


def _check_paths(inputs: Mapping[str, str], json_file: Path | None, pictures: Sequence[Path]) -> None:
    """Raises for paths that cannot work before any work is done."""
    taken: dict[str, str] = {}
    for option, path in inputs.items():
        if path == STANDARD_INPUT:
            _take(taken, option, path)
            continue
        if os.path.isdir(path) or not os.path.exists(path):
            got = "is a folder" if os.path.isdir(path) else "does not exist"
            raise InputError(f"{option} must be a file but {path} {got}")
        if not os.access(path, os.R_OK):
            raise InputError(f"{option} must be readable but {path} is not")
        _take(taken, option, path)
    if json_file is None and not pictures:
        return
    from valor_gpu.report.files import check_output, check_picture, is_standard_output

    json_files = [] if json_file is None or is_standard_output(json_file) else [("--json", json_file)]
    for option, output in (*(("--plot", picture) for picture in pictures), *json_files):
        check_output(option, output)
        _take(taken, option, output)
    for picture in pictures:
        check_picture("--plot", picture)


def _take(taken: dict[str, str], option: str, path: str | Path) -> None:
    whole = os.path.realpath(path)
    if whole in taken:
        raise InputError(f"{option} must be another file than {taken[whole]} but both are {path}")
    taken[whole] = option


def _evaluate(options: argparse.Namespace, progress: Progress) -> COCOeval:
    from valor_gpu.coco import COCO, COCOeval

    with contextlib.redirect_stdout(io.StringIO()):  # the messages of pycocotools
        progress.step("loading libraries")
        from valor_gpu.coco.engine import engine_on

        engine_on(options.device)
        progress.step(f"reading {os.path.basename(options.gt)} and {os.path.basename(options.dt)}")
        ground_truths = COCO(options.gt)
        detections = ground_truths.loadRes(options.dt)
        evaluator = COCOeval(ground_truths, detections, "bbox", device=options.device, convention=options.convention)
        progress.step(f"matching {plural(len(evaluator.params.imgIds), 'image')}")
        evaluator.evaluate()
        progress.step("accumulating")
        evaluator.accumulate()
    return evaluator


def _write(options: argparse.Namespace, evaluator: COCOeval, result: Result, inputs: Inputs | None) -> list[Path]:
    if inputs is not None:
        from valor_gpu.coco.evaluation_result import category_ids
        from valor_gpu.report.document import document
        from valor_gpu.report.files import write_json

        categories = category_ids(evaluator.cocoGt, evaluator.params)
        write_json(options.json, document("detect", result, inputs, options.device, categories=categories))
    if options.plot is not None:
        from valor_gpu.report.files import draw_picture

        draw_picture(options.plot, result, source=os.path.basename(options.dt))
    return [path for path in (options.json, options.plot) if path is not None]


def _warn(options: argparse.Namespace, evaluator: COCOeval, result: Result) -> None:
    from valor_gpu.report.detection import doubts

    for text in doubts(evaluator.cocoGt, evaluator.cocoDt, result, options.gt):
        print(f"valor-gpu {options.command}: warning: {text}", file=sys.stderr)


def _report(options: argparse.Namespace, evaluator: COCOeval, result: Result, written: list[Path]) -> str:
    """The twelve numbers, the classes if asked for, counts and choices."""
    from valor_gpu.report.detection import class_table, count_line

    parts = [str(evaluator)]
    if options.per_class:
        parts.append(class_table(result))
    parts.append("\n".join([count_line(result), str(result.signature), *(f"wrote {path}" for path in written)]))
    return "\n\n".join(parts)


# ----------------------------------------------------------------------------------------------------------- classify


def _classify(options: argparse.Namespace) -> None:
    from valor_gpu.report.progress import Progress

    _check_paths({"--data": options.data}, options.json, options.plot)
    pictures = {path: _picture_of(path, options) for path in options.plot}
    if options.normalize and "confusion" not in pictures.values():
        raise InputError("--normalize needs a --plot whose name ends in confusion")
    inputs = _inputs(options, data=options.data)
    with Progress(4, sys.stderr, enabled=not options.quiet) as progress:
        progress.step("loading torch")
        from valor_gpu.coco.torch_engine import usable_device
        from valor_gpu.report.classify import evaluate
        from valor_gpu.report.document import document
        from valor_gpu.report.files import draw_picture, write_json

        usable_device(options.device)
        progress.step(f"reading {os.path.basename(options.data)}")
        predictions = _read(options)
        progress.step(f"counting {plural(len(predictions.target), 'sample')}")
        evaluated = evaluate(predictions, options.average, options.thresholds, options.device, set(pictures.values()))
        progress.step("writing")
        if inputs is not None:
            classes = list(evaluated.names)
            write_json(options.json, document("classify", evaluated.result, inputs, options.device, classes=classes))
        for path, picture in pictures.items():
            matrix = {"normalize": options.normalize} if picture == "confusion" else {}
            drawn = {"names": evaluated.names, "source": os.path.basename(options.data), **matrix}
            draw_picture(path, evaluated.picture(picture), **drawn)
    if _reports(options):
        print(_classify_report(options, evaluated, [*([] if options.json is None else [options.json]), *pictures]))


def _classify_report(options: argparse.Namespace, evaluated: Evaluated, written: Sequence[Path]) -> str:
    from valor_gpu.report.classify import class_table, count_line, summary

    tail = [count_line(evaluated.result), str(evaluated.result.signature), *(f"wrote {path}" for path in written)]
    parts = [summary(evaluated), *([class_table(evaluated)] if options.per_class else []), "\n".join(tail)]
    return "\n\n".join(parts)


def _picture_of(path: Path, options: argparse.Namespace) -> str:
    """What the name of a picture asks for."""
    from valor_gpu.report.classify import OF_SCORES, PICTURES

    picture = re.split(r"[-_. ]", path.stem)[-1].lower()
    if picture not in PICTURES:
        raise InputError(f"--plot needs names that end in {', '.join(PICTURES)}, as in digits_roc.png, but got {path}")
    if options.pred is not None and picture in OF_SCORES:
        raise InputError(f"--plot {path} needs --scores or --scores-prefix, not --pred")
    return picture


def _read(options: argparse.Namespace) -> Predictions:
    from valor_gpu.inputs.predictions import Columns, read_predictions

    columns = Columns(options.target, options.scores or (), options.scores_prefix, options.pred, options.weight)
    return read_predictions(options.data, columns, options.labels, options.ignore)
