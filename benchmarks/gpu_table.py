"""The table of a GPU check, made from its record: for README.md, for docs/benchmarks.md and for the end of a run.

Importing this loads no torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from benchmarks.gpu_consistency import contradiction, doubts
from benchmarks.gpu_record import Record, checks_of, rows_of
from benchmarks.gpu_targets import duration
from benchmarks.machine import RESULTS

NOT_MEASURED = (
    "**Not yet measured on a GPU.** The CUDA kernels compile for compute capability 7.5 to 12.0 and, in a simulator,"
    " give the same bits as the CPU kernels. None has run on a GPU yet, so no time is known."
)
LINES, WIDTH = 48, 120
"""Of the text at the end of a run, at most."""
_NAMES = 6
NAME_WIDTH = 60
_COMPARED = ("of copy speed", "torchmetrics, same GPU", "CPU, with copies")
_README = (
    "box AP, val2017 scale, one update and compute", "box AP, val2017 scale, updates of 16 images and compute",
    "mask AP, one update", "mIoU, label maps", "top-1 accuracy", "ROC AUC, exact",
)  # fmt: skip
"""First words of the rows that README.md shows: one for each kind of input, and AP also in small updates."""
_EVERY_ROW = "[docs/benchmarks.md](docs/benchmarks.md) has every row, with its targets."
_ABOUT = (
    "Time: median wall time, tensors already on the GPU. torchmetrics: its time on the same tensors, divided by ours."
    " CPU, with copies: the time to copy the tensors to the CPU and run our metric there on all cores, divided by ours;"
    " below 1x, the CPU is the faster choice. A time is shown only if the result was bit-identical to that on the CPU."
)
_ABOUT_PAGE = (
    "Of copy speed: how fast the GPU moves the bytes that the work needs, as a share of the speed of a plain copy on"
    " the same GPU. Floor: the least time in which those bytes can move, at that speed. Device: time on the GPU alone,"
    " with its cache emptied first, up to the point where the host reads the result back."
)
_COMPARING = ("parity", "tests", "unseen", "waiting", "graphs", "nccl")
"""Sections that compare every kernel with the CPU."""


class BrokenResult(ValueError):
    """A stored result cannot be shown; the message names its file."""


def read_result(path: Path) -> Record:
    """Returns the JSON object in a file of results.

    Raises:
        BrokenResult: the file holds something else.
    """
    try:
        found = json.loads(path.read_text())
    except ValueError as error:  # of JSON or of UTF-8
        raise _broken(path, f"must hold JSON but does not ({error})") from None
    if not isinstance(found, dict):
        raise _broken(path, f"must hold a JSON object but holds {_KINDS_OF_JSON.get(type(found), 'a number')}")
    return found


def _broken(path: Path, wrong: str) -> BrokenResult:
    return BrokenResult(f"{path} {wrong}: copy it again from the machine that made it, or remove it")


def newest(folder: Path = RESULTS) -> Record | None:
    """Returns the newest record of a CUDA device with rows of a full run, else the newest one with any check run.

    Raises:
        BrokenResult: a ``gpu_*.json`` in ``folder`` holds no record.
    """
    records = [_read_record(path) for path in sorted(folder.glob("gpu_*.json"))]
    run = [record for record in records if "capability" in record["device"] and _any_run(record)]  # no rehearsal
    timed = sorted((record for record in run if rows(record)), key=lambda record: str(record["date"]))
    if not timed:
        return max(run, key=lambda record: str(record["date"]), default=None)
    lacking = _missing_rows(timed[-1], timed[:-1])
    return {**timed[-1], EARLIER: lacking} if lacking else timed[-1]


EARLIER = "earlier"
"""Key of the rows that a record lacks and an earlier one of the same device has, each with what it was made from."""


def _missing_rows(record: Record, others: Sequence[Record]) -> list[Record]:
    """Rows of works that the run of a record was stopped before, of the newest other record that has them."""
    found: dict[str, Record] = {}
    for other in others:
        if other["device"]["name"] == record["device"]["name"]:
            made = f"{_commit(other)}, {other['date'][:10]}"
            found |= {row["work"]: {**row, "made": made} for row in rows(other)}
    known = {row["work"] for row in rows(record)}
    return [row for work, row in found.items() if work not in known]


def _any_run(record: Record) -> bool:
    return any(check["outcome"] in ("pass", "fail") for _, check in checks_of(record))


def rows(record: Record, quick: bool = False) -> list[Record]:
    """Returns the rows of all checks that passed, in their order; those of quick runs only where ``quick`` says so."""
    own = [row for row in rows_of(record, quick) if "work" in row]
    return [*own, *({**row, "work": f"{row['work']} †"} for row in record.get(EARLIER, ()))]


# -------------------------------------------------------------------------------------------------------------- shape

_SPREAD: dict[str, Any] = {"median": Real, "min?": Real, "max?": Real}
_TARGET: dict[str, Any] = {"text": str, "met": bool, "measured": Real, "limit": Real}
_SHAPE: dict[str, Any] = {
    "kind": str, "date": str, "commit": str, "versions": {"torch": str}, "digest?": str,
    "runs?": [{"asked": [str], "quick?": bool}],
    "device": {"name": str, "driver": str}, "machine": {"processor": str, "cpus": Real},
    "sections": {"*": {"checks": [{"name": str, "outcome": str, "quick": bool, "detail?": str, "rows?": [dict]}]}},
}  # fmt: skip
_ROW_SHAPE: dict[str, Any] = {
    "work": str, "met": object, "missed": [str], "seconds?": _SPREAD, "device_seconds?": _SPREAD,
    "floor_seconds?": Real, "bytes?": Real, "copy_bytes_per_second?": Real, "share_of_copy?": Real,
    "times_torchmetrics?": Real, "times_cpu_route?": Real, "extra_memory?": Real, "targets?": [_TARGET],
    "host_seconds?": _SPREAD, "cpu_route?": _SPREAD, "torchmetrics?": _SPREAD,
}  # fmt: skip
"""Entries of a record and of its rows that are shown, with their types; ``?``: may be absent, ``*``: of any name."""
_KINDS_OF_JSON = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _read_record(path: Path) -> Record:
    record = read_result(path)
    wrong = _fault(record, _SHAPE, "the record")
    for _, check in [] if wrong else checks_of(record):
        for row in check.get("rows", ()):
            wrong = wrong or (_fault(row, _ROW_SHAPE, f"row {row['work']!r}") if "work" in row else "")
    wrong = wrong or contradiction(record)
    if wrong:
        raise _broken(path, f"must hold the record of a GPU check, but {wrong}")
    return record


def _fault(value: Any, shape: Any, where: str) -> str:
    """Returns where ``value`` first differs from ``shape`` and how, empty if nowhere."""
    kind = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, kind) or (kind is Real and isinstance(value, bool)):
        needed, got = (_KINDS_OF_JSON.get(one, "a number") for one in (kind, type(value)))
        return f"{where} must be {needed} and is {got}"
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(shape, list):
        parts = [(item, shape[0], f"{where}[{i}]") for i, item in enumerate(value)]
    elif isinstance(shape, dict):
        absent = [key for key in shape if key != "*" and not key.endswith("?") and key not in value]
        if absent:
            return f"{where} has no {absent[0]}"
        inner = {name: shape.get(name, shape.get(f"{name}?", shape.get("*"))) for name in value}
        parts = [(value[name], of, f"{where}.{name}") for name, of in inner.items() if of is not None]
    return next(filter(None, (_fault(*part) for part in parts)), "")


# ----------------------------------------------------------------------------------------------------------- Markdown


def readme_block(record: Record | None) -> str:
    """Returns the six rows of README.md, or a sentence that nothing is timed yet.

    The sentences below the table count every row whose user could choose the CPU.
    """
    if record is None or not rows(record):
        return untimed(record)
    choices = [row for row in rows(record) if "cpu_route" in row or "no_cpu_route" in row]
    shown = [row for start in _README for row in choices if row["work"].startswith(start)] or choices
    lines = [f"| on a GPU | time | {' | '.join(_COMPARED[1:])} |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {row['work']} | **{_median(row, 'seconds')}** | {_torchmetrics(row)} | {_route(row)} |" for row in shown
    ]
    parts = ["\n".join(lines), " ".join((_choice(choices), _aims(choices), _EVERY_ROW)), _ABOUT, conditions(record)]
    return "\n\n".join(filter(None, parts))


def page_text(record: Record | None) -> str:
    """Returns what docs/benchmarks.md says: all rows with bytes, floor, device time and the targets that they miss."""
    if record is None or not rows(record):
        return untimed(record)
    heads = ["on a GPU", "bytes", "floor", "device", "time", *_COMPARED, "target"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for row in rows(record):
        cells = [row["work"], *_sizes(row), _median(row, "device_seconds"), f"**{_median(row, 'seconds')}**"]
        cells += [_share(row), _torchmetrics(row), _route(row), _target(row)]
        lines.append(f"| {' | '.join(cells)} |")
    shown = rows(record)
    sums = " ".join((_choice(shown), _aims(shown))).strip()
    about = f"{_ABOUT} {_ABOUT_PAGE}"
    return "\n\n".join(filter(None, ["\n".join(lines), sums, about, f"{conditions(record)} {doubts(record)}"]))


def untimed(record: Record | None) -> str:
    """Returns the sentence in place of a table: whether every kernel agreed with the CPU, and that none is timed."""
    if record is None:
        return NOT_MEASURED
    compared = {name: section for name, section in record["sections"].items() if name in _COMPARING}
    names = _by_outcome({"sections": compared}, _COMPARING)
    failed, late = _by_outcome(record)["failed"], names[NOT_RUN]  # a time fails if its result is not that of the CPU
    card, made = record["device"]["name"], f"{record['date'][:10]}, {_commit(record)}"
    end = "timed only in a quick run." if rows(record, quick=True) else "not yet timed on a GPU."
    end = f"; {NOT_RUN}: {_some(late)}; {end}" if late else f"; {end}"
    if failed:
        return f"{_count(len(failed), record)} failed on {card} ({made}): {_some(failed)}{end}"
    passed = _count(len(names["passed"]), {"sections": compared})
    if late:
        return f"{passed} passed and none failed on {card} ({made}){end}"
    return f"Every kernel agreed with the CPU on {card} ({passed}, {made}){end}"


def _count(count: int, record: Record) -> str:
    total = sum(1 for _ in checks_of(record))
    return f"{count} of {total} {'check' if total == 1 else 'checks'}"


def _commit(record: Record) -> str:
    changed = record.get("changed_files")
    return f"commit {record['commit'][:10]}" + (f" with {changed} changed files" if changed else "")


def conditions(record: Record) -> str:
    """Returns where, when and from what a record was made, and which of its checks are not behind it."""
    device, machine, commit = record["device"], record["machine"], _commit(record)
    copies = {row["copy_bytes_per_second"] for row in rows(record, True) if "copy_bytes_per_second" in row}
    copy = f" (copies at {max(copies) / 1e12:.2f} TB/s)" if copies else ""
    earlier = dict.fromkeys(row["made"] for row in record.get(EARLIER, ()))
    marked = f" † Of {'; '.join(earlier)}: the newest run was stopped before these rows." if earlier else ""
    return (
        f"{device['name']}{copy}, driver {device['driver']}, torch {record['versions']['torch']}; CPU:"
        f" {machine['cpus']} cores of {machine['processor']}; {coverage(record)}."
        f" {commit.capitalize()}, {record['date'][:10]}.{marked}"
    )


def coverage(record: Record) -> str:
    """Returns how many checks passed, and the names of those that failed or were not run."""
    names = _by_outcome(record)
    parts = [f"{kind}: {_some(names[kind])}" for kind in ("failed", NOT_RUN) if names[kind]]
    return "; ".join([f"{_count(len(names['passed']), record)} passed", *parts])


NOT_RUN = "not run"
_KINDS = {"passed": ("pass",), "failed": ("fail",), NOT_RUN: ("skipped", "unavailable")}


def _by_outcome(record: Record, needed: Sequence[str] = ()) -> dict[str, list[str]]:
    """Names of checks, and those of sections that did not end among the ones that were asked for or are ``needed``."""
    found = {
        kind: [_named(check) for _, check in checks_of(record) if check["outcome"] in outcomes]
        for kind, outcomes in _KINDS.items()
    }
    asked = dict.fromkeys([*needed, *(name for run in record.get("runs", ()) for name in run["asked"])])
    for name in asked:
        section = record["sections"].get(name, {"checks": []})
        if not section.get("ended") or not section["checks"]:
            found[NOT_RUN].append(f"{'the rest of ' if section['checks'] else ''}section {name}")
    return found


def _named(check: Record) -> str:
    """The name of a check, with the numbers of one that stands for many tests, not all of which were run."""
    detail = str(check.get("detail", ""))
    partly = check["outcome"] == "unavailable" and detail.startswith("passed ")
    return f"{check['name']} ({detail})" if partly else str(check["name"])


def _some(names: list[str]) -> str:
    more = [f"{len(names) - _NAMES} more (in the record)"] if len(names) > _NAMES else []
    return ", ".join([*names[:_NAMES], *more])


def _choice(shown: list[Record]) -> str:
    """How often the GPU is the faster choice, where it is not, and where nobody knows."""
    choices = [row for row in shown if "times_cpu_route" in row]
    slower = [row["work"] for row in choices if row["times_cpu_route"] < 1]
    which = f"; the CPU is faster in {'; '.join(slower)}" if slower else ""
    unknown = sum("no_cpu_route" in row for row in shown)
    parts = [f"The GPU is the faster choice in {_rows_of(len(choices) - len(slower), len(choices))}{which}."]
    parts += [f"The CPU was not timed in {_rows_of(unknown, len(choices) + unknown)}: the C++ library was missing."]
    return " ".join(part for part, said in zip(parts, (choices, unknown)) if said)


def _aims(shown: list[Record]) -> str:
    """How many rows meet their targets."""
    aimed = [row for row in shown if row["met"] is not None]
    met = sum(bool(row["met"]) for row in aimed)
    verb = "meets its targets" if len(aimed) == 1 else "meet their targets"
    return f"{_rows_of(met, len(aimed))} {verb}." if aimed else ""


def _rows_of(count: int, total: int) -> str:
    return f"{count} of {total} {'row' if total == 1 else 'rows'}"


def _sizes(row: Record) -> list[str]:
    return [_bytes(row["bytes"]), duration(row["floor_seconds"])] if "floor_seconds" in row else ["", ""]


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 999.5 * size else f"{count / size:.0f} {unit}"
    return f"{count:.0f} B"


def _median(row: Record, clock: str) -> str:
    return duration(row[clock]["median"]) if clock in row else ""


def _share(row: Record) -> str:
    return f"{row['share_of_copy']:.0%}" if "share_of_copy" in row else ""


def _torchmetrics(row: Record) -> str:
    if "no_torchmetrics" in row:
        return "not installed"
    return ratio(row["times_torchmetrics"]) if "times_torchmetrics" in row else ""


def _route(row: Record) -> str:
    if "no_cpu_route" in row:
        return "not timed"
    return ratio(row["times_cpu_route"]) if "times_cpu_route" in row else ""


def _target(row: Record) -> str:
    return "" if row["met"] is None else "met" if row["met"] else f"missed: {'; '.join(row['missed'])}"


def ratio(times: float) -> str:
    """Returns how many times as long as ours something takes."""
    return f"{times:.1f}x" if times < 10 else f"{times:.0f}x"


# --------------------------------------------------------------------------------------------------------------- text


def text(record: Record) -> str:
    """Returns the table as lines for a terminal, with the missed targets and the checks that are not behind it.

    A record without rows gives one line. Where lines or characters are too many, the text says how many are left out.
    """
    shown = rows(record, quick=True)
    if not shown:
        return f"no time was measured; {coverage(record)}"[:WIDTH]
    missed = [f"missed: {row['work'][:60]}: {'; '.join(row['missed'])}" for row in shown if row["missed"]]
    sums = " ".join((_choice(shown), _aims(shown))).strip()
    tail = [part for line in (sums, conditions(record)) for part in _wrapped(line)]
    room = LINES - 1 - len(tail)
    body = [*map(_line, shown), *missed]
    if len(body) > room:
        body = [*body[: room - 1], f"and {len(body) - room + 1} more lines (in the record)"]
    return "\n".join(line.rstrip()[:WIDTH] for line in [_HEAD, *body, *tail])


_HEAD = f"{'':{NAME_WIDTH}} {'bytes':>7} {'floor':>7} {'device':>7} {'wall':>7} copy torchm.   CPU target"


def _line(row: Record) -> str:
    name = row["work"]
    name = name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 3] + "..."
    moved, floor = (cell.replace(" ", "") for cell in _sizes(row))
    device, wall = (_median(row, clock).replace(" ", "") for clock in ("device_seconds", "seconds"))
    target = "" if row["met"] is None else "met" if row["met"] else "MISSED"
    torchmetrics = _torchmetrics(row) if "times_torchmetrics" in row else "none" if "no_torchmetrics" in row else ""
    route = "none" if "no_cpu_route" in row else _route(row)
    cells = f"{moved:>7} {floor:>7} {device:>7} {wall:>7} {_share(row):>4} {torchmetrics:>7} {route:>5} {target}"
    return f"{name:{NAME_WIDTH}} {cells}"


def _wrapped(line: str) -> list[str]:
    """At most three lines; what is longer ends in the record."""
    words, lines = line.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines if len(lines) <= 3 else [*lines[:2], lines[2][: WIDTH - 20] + " ... (in the record)"]
