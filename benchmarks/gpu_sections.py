"""Sections of a GPU check: their checks, their order, and how the record grows with every check.

A kernel that no GPU has run may stop the process or the device. So sections run in a process of their own, which
writes the record ahead of each check and after it; ``benchmarks.gpu_supervisor`` starts another one behind a check that
ended it, and that one goes on where the record ends.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu_masks, gpu_nccl, gpu_parity, gpu_sanitizer, gpu_tests, gpu_timing, gpu_waiting
from benchmarks.checks import Checks, Later, OutOfTime
from benchmarks.gpu_budgets import time_budgets
from benchmarks.gpu_classification import Load, time_classification
from benchmarks.gpu_record import standing
from benchmarks.gpu_rows import row_jobs
from benchmarks.gpu_streams import check_streams
from benchmarks.gpu_timing import COPY_BYTES, copy_bytes_per_second
from benchmarks.gpu_unseen import check_unseen
from benchmarks.gpu_works import Sizes, Work, sizes_for
from testing.datasets import CASES, make
from valor_gpu.ops import backends

DEVICE_LOST = 70
"""Exit code of a process after whose last check the device no longer answered."""
LOST_SECONDS = 20.0
"""A device that does not answer for so long after a failed check is lost."""
MARGIN = 3.0
"""Seconds between the end of a program and that of its check."""
LEAST_SECONDS = 2.0
"""No check begins with less time than this before the deadline."""


@dataclass(frozen=True)
class Setup:
    """Arguments of the sections.

    Attributes:
        device: a CUDA device, or the CPU, on which everything but the CUDA calls runs too.
        quick: fewer and smaller examples.
        works: makes the datasets to time; the first also gives phases, kernels, ops and torchmetrics.
        load: scores to time classification on.
        copy_size: bytes of the copy that measures the bandwidth.
        deadline: ``time.time()`` at which a check is stopped, and after which none begins.
        reserve: seconds before the deadline that the tests leave to the sections behind them.
        watched: file that gets the stacks of a check that hangs. Such a check ends the process, which must hold
            nothing else. None: a check may take any time.
        logs: start of the paths of files with the output of other programs; None: they are not kept.
        chosen: names of the checks to make, None for all.
    """

    device: torch.device
    quick: bool
    works: Callable[[], Sequence[Work]]
    load: Load
    copy_size: int = COPY_BYTES
    deadline: float = float("inf")
    reserve: float = 0.0
    watched: Path | None = None
    logs: Path | None = None
    chosen: Collection[str] | None = None

    def left(self) -> float:
        """Seconds that a program may take which a check starts, so that the check ends before the deadline."""
        return self.deadline - time.time() - MARGIN

    @cached_property
    def bandwidth(self) -> Later[float]:
        """Bytes that a copy on the device reads and writes a second, measured once in a process."""
        return Later("copy bandwidth", partial(copy_bytes_per_second, self.device, self.copy_size))

    @property
    def sizes(self) -> Sizes:
        """What is timed beside ``works`` and ``load``."""
        return sizes_for(self.device, self.quick)


def _parity(checks: Checks, setup: Setup) -> None:
    if setup.device.type == "cuda":
        gpu_parity.check_served(checks)
    gpu_parity.check_ops(checks, setup.device, setup.quick)
    gpu_parity.check_metric(checks, setup.device, 2 if setup.quick else 8)


def _tests(checks: Checks, setup: Setup) -> None:
    gpu_tests.check_tests(checks, setup.device, setup.left, setup.logs, setup.reserve)


def _unseen(checks: Checks, setup: Setup) -> None:
    check_unseen(checks, setup.device)


def _waiting(checks: Checks, setup: Setup) -> None:
    gpu_parity.check_waiting(checks, setup.device)
    gpu_waiting.check_waiting(checks, setup.device)


def _graphs(checks: Checks, setup: Setup) -> None:
    check_streams(checks, setup.device)


def _nccl(checks: Checks, setup: Setup) -> None:
    gpu_nccl.check_nccl(checks, setup.device, setup.left)


def _timing(checks: Checks, setup: Setup) -> None:
    device, works, sizes = setup.device, setup.works(), setup.sizes
    gpu_timing.time_copy(checks, setup.bandwidth, device)
    jobs = [job for work in works for job in gpu_timing.whole_jobs(work)]
    jobs += [gpu_timing.replicates_job(works[0], sizes.replicates), gpu_timing.box_pairs_job(sizes)]
    jobs += row_jobs(sizes)
    gpu_timing.time_jobs(checks, jobs, device, setup.bandwidth)
    for work in works[:1]:
        time_budgets(checks, work, device)
        gpu_timing.time_phases(checks, work, device)
        checks.run(f"{work.name}: kernels", partial(gpu_timing.profile, work, device))
        names = {op.name for op in backends()} - gpu_masks.MASK_OPS
        gpu_timing.time_ops(checks, work.scene, device, work.repeats, setup.bandwidth, names)
        gpu_timing.time_torchmetrics(checks, work, device, sizes.peer_images, setup.bandwidth)


def _classification(checks: Checks, setup: Setup) -> None:
    gpu_timing.time_copy(checks, setup.bandwidth, setup.device)
    time_classification(checks, setup.load, setup.device, setup.bandwidth)


def _masks(checks: Checks, setup: Setup) -> None:
    device, sizes = setup.device, setup.sizes
    gpu_timing.time_copy(checks, setup.bandwidth, device)
    gpu_timing.time_jobs(checks, gpu_masks.mask_jobs(sizes), device, setup.bandwidth)
    gpu_masks.check_masks(checks, device, sizes.checked)
    scene = Later("scene of masks", partial(make, CASES["val2017"], sizes.op_images))
    gpu_timing.time_ops(checks, scene, device, 5, setup.bandwidth, gpu_masks.MASK_OPS)


def _sanitizer(checks: Checks, setup: Setup) -> None:
    gpu_sanitizer.check_sanitizers(checks, setup.left, setup.logs)


SECTIONS: dict[str, Callable[[Checks, Setup], None]] = {
    "parity": _parity,
    "tests": _tests,
    "unseen": _unseen,
    "waiting": _waiting,
    "graphs": _graphs,
    "nccl": _nccl,
    "timing": _timing,
    "classification": _classification,
    "masks": _masks,
    "sanitizer": _sanitizer,
}
"""In the order in which they run, the most valuable first."""


def run_sections(
    names: Sequence[str], setup: Setup, record: dict[str, Any], save: Callable[[dict[str, Any]], object]
) -> None:
    """Runs sections in the order of ``SECTIONS``; ``record`` is saved ahead of every check and after it.

    Args:
        names: of the sections.
        setup: see :class:`Setup`.
        record: gets the checks of each section under ``sections``, and under ``running`` the section and the check
            under way, None at the end. Checks that stand, see :func:`benchmarks.gpu_record.standing`, are not made
            again.
        save: keeps the record.
    """
    for name in (name for name in SECTIONS if name in names):
        _Running(name, setup, record, save).run()


class _Running:
    """A section under way."""

    def __init__(
        self, name: str, setup: Setup, record: dict[str, Any], save: Callable[[dict[str, Any]], object]
    ) -> None:
        self._name, self._setup, self._record, self._save = name, setup, record, save
        before = record.setdefault("sections", {}).get(name, {"checks": []})
        self._earlier = {check["name"]: check for check in before["checks"]}
        known = standing(record, name, setup.quick, setup.chosen or ())
        self._checks = Checks(before=self._before, after=self._after, known=known, chosen=setup.chosen)
        self._start = time.perf_counter()
        self._seconds, self._ended = before.get("seconds", 0.0), before.get("ended", 0)
        self._run = len(record.get("runs", ()))
        self._stacks: Any = None

    def run(self) -> None:
        """Makes its checks."""
        self._keep(None)
        SECTIONS[self._name](self._checks, self._setup)
        self._record["running"] = None
        self._write(whole=self._setup.chosen is None)

    def _keep(self, check: str | None, **more: Any) -> None:
        self._record["running"] = {"section": self._name, "check": check, **more}
        self._write()

    def _write(self, whole: bool = False) -> None:
        """Checks of earlier runs that this one has not come to yet stay in the record."""
        made = {check["name"]: check for check in self._checks.records}
        others = [check for name, check in self._earlier.items() if name not in made]
        kept = [check for check in others if not whole or check["run"] == self._run]
        self._record["sections"][self._name] = {
            "seconds": round(self._seconds + time.perf_counter() - self._start, 2),
            "ended": self._run if whole else self._ended,
            "checks": [*self._checks.records, *kept],
        }
        self._save(self._record)

    def _before(self, check: str, seconds: float) -> None:
        left = self._setup.deadline - time.time()
        if left < LEAST_SECONDS:
            raise OutOfTime("no time was left")
        self._keep(check, since=time.time(), seconds=min(seconds, left), hangs_after=seconds)
        if self._setup.watched:  # a kernel that does not end cannot be stopped otherwise
            self._stacks = self._setup.watched.open("a" if self._setup.watched == Path("/dev/stderr") else "w")
            faulthandler.dump_traceback_later(max(min(seconds, left), 0.1), exit=True, file=self._stacks)

    def _after(self) -> None:
        for made in self._checks.records:
            before = self._earlier.get(made["name"], made)
            made.setdefault("run", self._run)
            made.setdefault("quick", self._setup.quick)
            if made["run"] == self._run > before.get("run", self._run) and _has_failed(before):
                made["failed_before"] = True
        last = self._checks.records[-1]
        if last["outcome"] == "fail" and self._setup.device.type == "cuda":
            self._stop_if_lost(last["name"])
        if self._stacks:
            faulthandler.cancel_dump_traceback_later()
            self._stacks.close()
            self._stacks = None
        self._keep(last["name"])

    def _stop_if_lost(self, name: str) -> None:
        """Ends the process where a kernel has broken the device's context: nothing would work in it from then on."""
        self._keep(name, since=time.time(), seconds=LOST_SECONDS, hangs_after=LOST_SECONDS)
        if self._stacks:
            faulthandler.dump_traceback_later(LOST_SECONDS, exit=True, file=self._stacks)
        try:
            torch.cuda.synchronize(self._setup.device)
        except RuntimeError as error:
            print(f"the device no longer answers: {error}".splitlines()[0], flush=True)
            os._exit(DEVICE_LOST)


def _has_failed(check: dict[str, Any]) -> bool:
    return check["outcome"] == "fail" or check.get("failed_before", False)
