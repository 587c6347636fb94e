"""Runs named checks, keeps what each came to, and goes on after a failure. Measures on the CPU as on a GPU."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch


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
        records: dicts of ``name``, ``outcome`` (``pass``, ``fail``, ``unavailable`` or ``skipped``), ``detail`` and
            ``seconds``.

    Args:
        show: called with one line for each check.
        before: called with the name of a check ahead of it, and may raise in its place.
        after: called when a check has been recorded.
    """

    def __init__(
        self,
        show: Callable[[str], object] = print_now,
        before: Callable[[str], object] = lambda _: None,
        after: Callable[[], object] = lambda: None,
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self._show, self._before, self._after = show, before, after

    def run(self, name: str, check: Callable[[], object]) -> Any:
        """Run one check; returns what it returns, or None when it fails or is not made."""
        start, outcome, detail, result = time.perf_counter(), "pass", "", None
        try:
            self._before(name)
            result = check()
        except OutOfTime as error:
            outcome, detail = "skipped", str(error)
        except Unavailable as error:
            outcome, detail = "unavailable", str(error)
        except Disagreement as error:
            outcome, detail = "fail", str(error)
        except Exception as error:  # a CUDA error, anything: it is recorded, the other checks still run
            outcome, detail = "fail", "".join(traceback.format_exception(error)[-3:])
        seconds = time.perf_counter() - start
        self.records.append({"name": name, "outcome": outcome, "detail": detail, "seconds": round(seconds, 4)})
        self._show(f"{outcome:11s} {name} ({seconds:.2f} s)" + (f": {detail.strip()}" if detail else ""))
        self._after()
        return result

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [record["name"] for record in self.records if record["outcome"] == "fail"]


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


HEAD_START_CYCLES = 4_000_000
"""For which the device is held back, some 2 ms: as long as the host enqueues one piece of work."""


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
    seconds = []
    for _ in range(repeats):
        before()
        if ahead:
            torch.cuda._sleep(HEAD_START_CYCLES)
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
