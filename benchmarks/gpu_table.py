"""The table of a GPU check, made from its record: for README.md, for docs/benchmarks.md and for the end of a run.

Importing this loads no torch.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.gpu_record import Record, checks_of
from benchmarks.gpu_targets import duration
from benchmarks.machine import RESULTS

NOT_MEASURED = (
    "**Not yet measured on a GPU.** The CUDA kernels compile for compute capability 7.5 to 12.0 and, in a simulator,"
    " give the same bits as the CPU kernels. None has run on a GPU yet, so no time is known."
)
LINES, WIDTH = 40, 120
"""Of the text at the end of a run, at most."""
_NAMES = 6
NAME_WIDTH = 60
_COMPARED = ("of a copy", "torchmetrics, same GPU", "CPU, with copies")
_ABOUT = (
    "Time: of tensors that lie on the GPU, by the wall clock, medians. Of a copy: the bytes that must move, over the"
    " device time, beside a copy on the same GPU. torchmetrics: its time on the same tensors, over ours. CPU, with"
    " copies: the time to copy the tensors to the CPU and count them there with our metric and all cores, over ours;"
    " below 1x the CPU is the faster choice. Results agreed with those of the CPU bit for bit before a time counted."
)


def newest(folder: Path = RESULTS) -> Record | None:
    """Returns the newest record in ``folder`` of a CUDA device with rows of a full run, None without any."""
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("gpu_*.json"))]
    timed = [record for record in records if "capability" in record["device"] and rows(record)]  # not a rehearsal
    return max(timed, key=lambda record: str(record["date"]), default=None)


def rows(record: Record, quick: bool = False) -> list[Record]:
    """Returns the rows of all checks that passed, in their order; those of quick runs only where ``quick`` says so."""
    return [
        row
        for _, check in checks_of(record)
        if check["outcome"] == "pass" and (quick or not check["quick"])
        for row in check.get("rows", ())
        if "work" in row
    ]


# ----------------------------------------------------------------------------------------------------------- Markdown


def readme_block(record: Record | None) -> str:
    """Returns what README.md says: the rows whose user could choose the CPU, or that nothing is measured."""
    if record is None:
        return NOT_MEASURED
    shown = [row for row in rows(record) if "cpu_route" in row]
    lines = [f"| on a GPU | time | {' | '.join(_COMPARED)} |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row['work']} | **{_median(row, 'seconds')}** | {_share(row)} | {_torchmetrics(row)} | {_route(row)} |"
        for row in shown
    ]
    parts = ["\n".join(lines), " ".join((_choice(shown), _aims(shown, named=True))).strip(), _ABOUT, conditions(record)]
    return "\n\n".join(filter(None, parts))


def page_text(record: Record | None) -> str:
    """Returns what docs/benchmarks.md says: all rows with bytes, floor, device time and the targets that they miss."""
    if record is None:
        return NOT_MEASURED
    heads = ["on a GPU", "bytes", "floor", "device", "time", *_COMPARED, "target"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for row in rows(record):
        cells = [row["work"], *_sizes(row), _median(row, "device_seconds"), f"**{_median(row, 'seconds')}**"]
        cells += [_share(row), _torchmetrics(row), _route(row), _target(row)]
        lines.append(f"| {' | '.join(cells)} |")
    about = f"{_ABOUT} Floor: the bytes over the bandwidth of the copy; device: between two events on the stream."
    shown = rows(record)
    parts = ["\n".join(lines), " ".join((_choice(shown), _aims(shown, named=False))).strip(), about, conditions(record)]
    return "\n\n".join(filter(None, parts))


def conditions(record: Record) -> str:
    """Returns where, when and from what a record was made, and which of its checks are not behind it."""
    device, machine, changed = record["device"], record["machine"], record.get("changed_files")
    copies = {row["copy_bytes_per_second"] for row in rows(record, True) if "copy_bytes_per_second" in row}
    copy = f", copies of {max(copies) / 1e12:.2f} TB/s" if copies else ""
    return (
        f"{device['name']}{copy}, driver {device['driver']}, torch {record['versions']['torch']}, beside"
        f" {machine['cpus']} cores of {machine['processor']}; {coverage(record)}."
        f" Commit {record['commit'][:10]}{f' with {changed} changed files' if changed else ''}, {record['date'][:10]}."
    )


def coverage(record: Record) -> str:
    """Returns how many checks passed, and the names of those that failed or were not made."""
    found = list(checks_of(record))
    by_outcome = {name: [c["name"] for _, c in found if c["outcome"] in outcomes] for name, outcomes in _KINDS.items()}
    asked = dict.fromkeys(name for run in record.get("runs", ()) for name in run["asked"])
    unended = [name for name in asked if not record["sections"].get(name, {}).get("ended")]
    by_outcome["not made"] += [f"the rest of section {name}" for name in unended]
    parts = [f"{kind}: {_some(names)}" for kind, names in by_outcome.items() if kind != "passed" and names]
    return "; ".join([f"{len(by_outcome['passed'])} of {len(found)} checks passed", *parts])


_KINDS = {"passed": ("pass",), "failed": ("fail",), "not made": ("skipped", "unavailable")}


def _some(names: list[str]) -> str:
    more = [f"{len(names) - _NAMES} more (in the record)"] if len(names) > _NAMES else []
    return ", ".join([*names[:_NAMES], *more])


def _choice(shown: list[Record]) -> str:
    """How often the GPU is the faster choice, and where it is not."""
    choices = [row for row in shown if "times_cpu_route" in row]
    slower = [row["work"] for row in choices if row["times_cpu_route"] < 1]
    which = f"; not in {'; '.join(slower)}" if slower else ""
    return f"The GPU is the faster choice in {len(choices) - len(slower)} of {len(choices)} rows{which}."


def _aims(shown: list[Record], named: bool) -> str:
    """How many rows meet their targets; with ``named`` also which do not."""
    aimed = [row for row in shown if row["met"] is not None]
    missed = [f"{row['work']} ({'; '.join(row['missed'])})" for row in aimed if not row["met"]]
    which = f"; missed: {', '.join(missed)}" if missed and named else ""
    return f"{len(aimed) - len(missed)} of {len(aimed)} rows meet their targets{which}." if aimed else ""


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
    sums = " ".join((_choice(shown), _aims(shown, named=False))).strip()
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
    cells = f"{moved:>7} {floor:>7} {device:>7} {wall:>7} {_share(row):>4} {torchmetrics:>7} {_route(row):>5} {target}"
    return f"{name:{NAME_WIDTH}} {cells}"


def _wrapped(line: str) -> list[str]:
    """At most three lines; what is longer ends in the record."""
    words, lines = line.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines if len(lines) <= 3 else [*lines[:2], lines[2][: WIDTH - 20] + " ... (in the record)"]
