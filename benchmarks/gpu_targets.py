"""Targets of the timings of a GPU check: all figures in one table, and how they follow the device.

The figures are times of an H200, whose copies move 4.3e12 bytes a second (docs/benchmarks.md names the device of a
record). By what bounds a work it follows another device, or does not:

- ``memory``: the time is that of moving bytes, and scales with the bytes and with the copy bandwidth measured here.
- ``host``, ``launches``: the time is that of Python and of kernel launches, which no memory changes.

Beside torchmetrics a work takes a tenth of the time where torchmetrics does much more than read what is given: it
sorts, compares with every threshold, or goes through the CPU. It takes half of the time where what bounds torchmetrics
bounds us too, so that no kernel could be ten times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
H200_COPY = 4.3e12
"""Bytes read plus bytes written a second."""


@dataclass(frozen=True)
class Target:
    """One limit.

    Attributes:
        bound: ``memory``, ``host`` or ``launches``.
        clock: spread of the row that is judged: ``seconds`` (wall), ``device_seconds`` or ``host_seconds``.
        seconds: of an H200, at most.
        moved: bytes that move in these seconds; of ``memory`` alone.
        times: as fast as torchmetrics at least, in place of ``seconds``.
        extra_memory: allocated beyond the input, as a share of its bytes at most, in place of ``seconds``.
    """

    bound: str
    clock: str = "seconds"
    seconds: float = 0.0
    moved: float = 0.0
    times: float = 0.0
    extra_memory: float = 0.0


def _memory(seconds: float, moved: float) -> Target:
    return Target("memory", "device_seconds", seconds, moved)


_SCORES = 1_000_000 * (1_000 * 4 + 8)  # float32 scores and int64 targets
_TWO_FLOORS = _memory(2 / H200_COPY, 1)
"""Where no figure is stated: nothing may cost more than twice its floor."""

TARGETS: dict[str, tuple[Target, ...]] = {
    "val2017, one update and compute": (Target("launches", seconds=1e-3),),
    "val2017, updates of 16 images and compute": (Target("host", seconds=40e-3),),
    "Objects365, one update and compute": (Target("launches", seconds=3e-3),),
    "update of 16 images, lists": (Target("host", "host_seconds", 120e-6),),
    "update of 16 images, padded": (Target("host", "host_seconds", 60e-6),),
    "val2017, compute": (
        Target("launches", "device_seconds", 0.35e-3),
        Target("host", "host_seconds", 0.15e-3),
    ),
    "val2017, 1,000 replicates": (Target("launches", seconds=0.3),),
    "box IoU": (_TWO_FLOORS,),
    "top classes": (_memory(1.4e-3, _SCORES),),
    "histogram": (_memory(1.4e-3, _SCORES),),
    "histogram, uneven": (_TWO_FLOORS,),
    "exact AUROC": (_memory(0.5, _SCORES), Target("memory", extra_memory=0.25)),
    # a fifth of the keys, whose targets are int64 and as many: 200,000 x 1,000 x 12 bytes
    "exact AUROC, multilabel": (_memory(0.1, 200_000 * 1_000 * 12),),
    "label maps": (_memory(12e-6, 2 * 8 * 1024 * 2048),),
    "logits": (_memory(55e-6, (19 * 4 + 8) * 1024 * 2048),),
    "packed masks": (_memory(70e-6, 100 * 1080 * 1920 * 9 / 8),),
    "mask boundary": (_TWO_FLOORS,),
    "dense masks": (_memory(60e-3, 500_000 * 425 * 600),),
    "torchmetrics": (Target("memory", times=10),),
    # both wait for the host: batches of 8,192 x 1,000 scores, and a frame of labels, which is as large
    "torchmetrics, host-bound": (Target("host", times=2),),
    # a metric of regression reads its rows once, and torchmetrics three times or more
    "torchmetrics, numbers": (Target("memory", times=3),),
    "nDCG": (Target("launches", seconds=0.05),),
    "documents": (Target("launches", seconds=1.0), Target("memory", extra_memory=3.0)),
    "Brier score": (_TWO_FLOORS,),
    # both read the logits once, and torchmetrics takes five floors for all that it does
    "torchmetrics, logits": (Target("memory", times=2),),
}
"""By the key that a work names."""

_CLOCKS = {"seconds": "wall", "device_seconds": "device", "host_seconds": "host"}


def judged(row: Row, keys: tuple[str, ...]) -> Row:
    """Returns ``row`` with its ``targets``, each ``met`` or not, with ``missed``, and with ``met`` over all of them.

    Args:
        row: with ``bytes`` and ``copy_bytes_per_second`` where a target of memory is named, and what was measured.
        keys: of ``TARGETS``; without any, or where nothing was measured that they judge, ``met`` is None.
    """
    found = [entry for key in keys for target in TARGETS[key] if (entry := _judge(row, target)) is not None]
    missed = [entry["text"] for entry in found if not entry["met"]]
    return row | {"targets": found, "missed": missed, "met": not missed if found else None}


def _judge(row: Row, target: Target) -> Row | None:
    if target.times:
        times, least = row.get("times_torchmetrics"), target.times
        return None if times is None else _entry(target, times, least, times >= least, _times)
    if target.extra_memory:
        extra, most = row.get("extra_memory"), target.extra_memory
        return None if extra is None else _entry(target, extra, most, extra <= most, _share)
    measured = row[target.clock]["median"]
    limit = seconds_allowed(target, row)
    entry = _entry(target, measured, limit, measured <= limit, duration)
    entry["text"] = f"{_CLOCKS[target.clock]} {entry['text']}"
    return entry


def seconds_allowed(target: Target, row: Row) -> float:
    """Returns the seconds that a target allows for the bytes of a row at the copy bandwidth that it was measured at."""
    if target.bound != "memory":
        return target.seconds
    floors = target.seconds * H200_COPY / target.moved
    return float(floors * row["bytes"] / row["copy_bytes_per_second"])


def _entry(target: Target, measured: float, limit: float, met: bool, shown: Any) -> Row:
    text = f"{shown(measured)}, target {shown(limit)}"
    return {"bound": target.bound, "measured": measured, "limit": limit, "met": met, "text": text}


def duration(seconds: float) -> str:
    """Returns seconds as text of three figures, in the unit that suits them.

    Example:
        >>> duration(0.0123), duration(4.2e-5), duration(2)
        ('12.3 ms', '42.0 us', '2.00 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_figures(seconds / size)} {unit}"
    return f"{_figures(seconds / 1e-6)} us"


def _figures(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _times(times: float) -> str:
    return f"{times:.1f}x torchmetrics"


def _share(share: float) -> str:
    return f"{share:.0%} of the input in memory"
