"""Runs named checks, keeps what each came to, and goes on after a failure. Measures on the CPU as on a GPU."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")
CHECK_SECONDS = 60.0
"""A check that takes longer hangs, unless it says otherwise."""


class Unavailable(Exception):
    """A check cannot be made here; the message says why."""


class Disagreement(Exception):
    """Two results that must be equal are not."""


class OutOfTime(Exception):
    """No time is left for a check."""


def print_now(text: str) -> None:
    """Prints a line that a kill of the process does not lose."""
    print(text, flush=True)


class Checks:
    """Outcomes by name, in order.

    Attributes:
        records: dicts of ``name``, ``outcome`` (``pass``, ``fail``, ``unavailable`` or ``skipped``), ``detail``,
            ``seconds`` and, where the check returned a dict or a list of dicts, these as ``rows``.

    Args:
        show: called with one line for each check.
        before: called ahead of a check with its name and the seconds that it may take; it may raise in its place.
        after: called when a check has been recorded.
        known: record by name of checks that are not made again; it is kept as it is.
        chosen: names of the checks to make, None for all. The others leave no record.
    """

    def __init__(
        self,
        show: Callable[[str], object] = print_now,
        before: Callable[[str, float], object] = lambda *_: None,
        after: Callable[[], object] = lambda: None,
        known: Mapping[str, dict[str, Any]] = MappingProxyType({}),
        chosen: Collection[str] | None = None,
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self._show, self._before, self._after = show, before, after
        self._known, self._chosen = known, chosen

    def wants(self, name: str) -> bool:
        """Whether :meth:`run` would make the check of this name."""
        return name not in self._known and (self._chosen is None or name in self._chosen)

    def run(self, name: str, check: Callable[[], object], seconds: float = CHECK_SECONDS) -> Any:
        """Runs one check, which hangs after ``seconds``; returns its result, None when it fails or is not made."""
        if name in self._known:
            self.records.append(self._known[name])
        if not self.wants(name):
            return None
        start, outcome, detail, result = time.perf_counter(), "pass", "", None
        try:
            self._before(name, seconds)
            result = check()
        except OutOfTime as error:
            outcome, detail = "skipped", str(error)
        except Unavailable as error:
            outcome, detail = "unavailable", str(error)
        except Disagreement as error:
            outcome, detail = "fail", str(error)
        except Exception as error:  # a CUDA error, anything: it is recorded, the other checks still run
            outcome, detail = "fail", "".join(traceback.format_exception(error))
        self._add(name, outcome, detail, time.perf_counter() - start, _rows(result))
        return result

    def fail(self, name: str, detail: str) -> dict[str, Any]:
        """Records a failure that another program has found; returns its record, which :meth:`save` keeps if changed."""
        return self._add(name, "fail", detail, 0.0, [])

    def save(self) -> None:
        """Keeps records that have changed."""
        self._after()

    def _add(self, name: str, outcome: str, detail: str, took: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
        record: dict[str, Any] = {"name": name, "outcome": outcome, "detail": detail, "seconds": round(took, 4)}
        self.records.append(record | ({"rows": rows} if rows else {}))
        self._show(f"{outcome:11s} {name} ({took:.2f} s)" + (f": {detail.strip()}" if detail else ""))
        self._after()
        return self.records[-1]

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [record["name"] for record in self.records if record["outcome"] == "fail"]


def _rows(result: object) -> list[dict[str, Any]]:
    """The dicts that a check returned."""
    found = [result] if isinstance(result, dict) else result if isinstance(result, list) else []
    return [row for row in found if isinstance(row, dict)]


class Later(Generic[T]):
    """A value that several checks need, made when the first of them calls for it.

    Args:
        name: of the value.
        make: makes it.

    Raises:
        Unavailable: by a call, if it could not be made for an earlier check, which has raised the error itself.
    """

    def __init__(self, name: str, make: Callable[[], T]) -> None:
        self._name, self._make = name, make
        self._made: list[T] = []
        self._failed = False

    def __call__(self) -> T:
        if self._failed:
            raise Unavailable(f"{self._name} could not be made")
        if not self._made:
            self._failed = True
            self._made.append(self._make())
            self._failed = False
        return self._made[0]


def wait(device: torch.device) -> None:
    """Until all work on ``device`` is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def spread(values: list[float]) -> dict[str, float]:
    """Median, smallest and largest, and how many."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": len(values)}


def wall_seconds(
    work: Callable[[], object], device: torch.device, repeats: int, before: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Spread of the seconds from an idle device until ``work`` and all that it launched are done.

    ``before`` runs ahead of every repeat, outside the clock.
    """
    seconds = []
    for _ in range(repeats):
        before()
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return spread(seconds)


_CYCLES = 2_000_000_000
"""Of a second, on the fastest GPUs of today."""
_HEAD_STARTS = (0.002, 0.4)
"""Seconds for which the device is held back at least and at most."""


def head_start(
    work: Callable[[], object], device: torch.device, before: Callable[[], object] = lambda: None
) -> Callable[[], None]:
    """Returns a function that holds a CUDA device back for half as long again as the host takes to enqueue ``work``.

    ``work`` runs twice to find out, since its first run may load kernels.
    """
    taken = 0.0
    for _ in range(2):
        before()
        wait(device)
        start = time.perf_counter()
        work()
        taken = time.perf_counter() - start
    seconds = min(max(1.5 * taken, _HEAD_STARTS[0]), _HEAD_STARTS[1])
    return lambda: torch.cuda._sleep(int(seconds * _CYCLES))


def device_seconds(
    work: Callable[[], object],
    device: torch.device,
    repeats: int,
    before: Callable[[], object] = lambda: None,
    ahead: bool = False,
) -> dict[str, float]:
    """Spread of the seconds between two events around ``work`` on the stream of ``device``; wall time on the CPU.

    ``before`` runs ahead of every repeat, outside the events. With ``ahead`` the device first sleeps, so that the host
    is ahead of it and the seconds have no gaps in which the device waits for the host.
    """
    if device.type != "cuda":
        return wall_seconds(work, device, repeats, before)
    seconds, hold_back = [], head_start(work, device, before) if ahead else lambda: None
    for _ in range(repeats):
        before()
        hold_back()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    return spread(seconds)


def peak_device_mb(work: Callable[[], object], device: torch.device) -> float | None:
    """Most memory that ``work`` allocates on ``device`` above what is there before, in MB; None on the CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20
