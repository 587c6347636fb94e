"""Sections of a GPU check: what each runs, in which order, and how the record grows with every check.

A kernel that no GPU has run may stop the process or the device. So sections run in a process of their own, which
writes the record ahead of each check and after it; ``benchmarks.gpu_check`` starts another one behind a check that
ended it.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from benchmarks import gpu_classification, gpu_masks, gpu_nccl, gpu_parity, gpu_sanitizer
from benchmarks.checks import Checks, Disagreement, OutOfTime
from benchmarks.gpu_budgets import time_budgets
from benchmarks.gpu_classification import Load, time_classification
from benchmarks.gpu_streams import check_streams
from benchmarks.gpu_timing import COPY_BYTES, Timing, Work, profile, time_metric, time_ops, time_phases
from benchmarks.gpu_timing import time_torchmetrics as time_detection_peers
from testing.datasets import CASES, make
from valor_gpu.ops import backends

DEVICE_LOST = 70
"""Exit code of a process after whose last check the device no longer answered."""
HANG_SECONDS = 150
"""A check that takes longer ends the process, with the lines where it stood."""
_PEER_IMAGES = 64  # torchmetrics in plain torch takes tens of milliseconds per image

Rows = dict[str, list[Timing]]
ROWS = ("budgets", "timings", "phases", "launches", "ops", "classification", "masks")
"""Kinds of timings in a section of the record."""


@dataclass(frozen=True)
class Setup:
    """What sections need.

    Attributes:
        device: a CUDA device, or the CPU, on which everything but the CUDA calls runs too.
        quick: fewer and smaller examples.
        works: makes the datasets to time; the first also gives phases, kernels, ops and torchmetrics.
        load: scores to time classification on.
        copy_size: bytes of the copy that measures the bandwidth.
        deadline: ``time.time()`` after which no check begins.
        ended: name of each check that has ended a process, and how; it fails without being run.
        watched: whether a check that hangs ends the process, which then must hold nothing else.
    """

    device: torch.device
    quick: bool
    works: Callable[[], Sequence[Work]]
    load: Load
    copy_size: int = COPY_BYTES
    deadline: float = float("inf")
    ended: Mapping[str, str] = field(default_factory=dict)
    watched: bool = False


def _parity(checks: Checks, setup: Setup, rows: Rows) -> None:
    if setup.device.type == "cuda":
        gpu_parity.check_served(checks)
    gpu_parity.check_ops(checks, setup.device, setup.quick)
    gpu_parity.check_metric(checks, setup.device, 2 if setup.quick else 8)
    gpu_parity.check_tests(checks, setup.device, setup.quick)


def _waiting(checks: Checks, setup: Setup, rows: Rows) -> None:
    gpu_parity.check_waiting(checks, setup.device)
    gpu_classification.check_waiting(checks, setup.device)


def _graphs(checks: Checks, setup: Setup, rows: Rows) -> None:
    check_streams(checks, setup.device)


def _timing(checks: Checks, setup: Setup, rows: Rows) -> None:
    device = setup.device
    works = checks.run("datasets", setup.works) or ()
    for work in works:
        rows["budgets"] += time_budgets(checks, work, device)
        rows["timings"] += time_metric(checks, work, device)
    for work in works[:1]:
        rows["phases"] += time_phases(checks, work, device)
        rows["launches"] += checks.run(f"{work.name}: kernels", partial(profile, work, device)) or []
        peers = partial(time_detection_peers, work, device, _PEER_IMAGES)
        rows["timings"] += checks.run("torchmetrics on the same device", peers) or []
        names = {op.name for op in backends()} - gpu_masks.MASK_OPS
        rows["ops"] += time_ops(checks, work.scene, device, work.repeats, setup.copy_size, names)


def _classification(checks: Checks, setup: Setup, rows: Rows) -> None:
    rows["classification"] += time_classification(checks, setup.load, setup.device, setup.copy_size)


def _masks(checks: Checks, setup: Setup, rows: Rows) -> None:
    gpu_masks.check_masks(checks, setup.device, 3 if setup.quick else 10)
    rows["masks"] += gpu_masks.time_masks(checks, setup.device, setup.quick, setup.copy_size)
    scene = checks.run("dataset of the ops of masks", lambda: make(CASES["val2017"], 500))
    if scene is not None:
        rows["ops"] += time_ops(checks, scene, setup.device, 5, setup.copy_size, gpu_masks.MASK_OPS)


def _nccl(checks: Checks, setup: Setup, rows: Rows) -> None:
    processes = min(2, torch.cuda.device_count()) if setup.device.type == "cuda" else 2
    name = f"metrics of {processes} processes, synchronised"
    checks.run(name, partial(gpu_nccl.check_processes, setup.device, processes))


def _sanitizer(checks: Checks, setup: Setup, rows: Rows) -> None:
    for tool in gpu_sanitizer.TOOLS:
        seconds = min(gpu_sanitizer.SECONDS, setup.deadline - time.time())
        checks.run(f"compute-sanitizer {tool}", partial(gpu_sanitizer.sanitize, tool, seconds))


SECTIONS: dict[str, Callable[[Checks, Setup, Rows], None]] = {
    "parity": _parity,
    "waiting": _waiting,
    "graphs": _graphs,
    "timing": _timing,
    "classification": _classification,
    "masks": _masks,
    "nccl": _nccl,
    "sanitizer": _sanitizer,
}
"""In the order in which they run: a sanitizer takes longest, and says least where the others have passed."""


def run_sections(
    names: Sequence[str], setup: Setup, record: dict[str, Any], save: Callable[[dict[str, Any]], object]
) -> None:
    """Runs sections in the order of ``SECTIONS``; ``record`` is saved ahead of every check and after it.

    Args:
        names: of the sections.
        setup: what they need.
        record: gets what each section gives under ``sections``, in place of what is there, and under ``running`` the
            section and the check under way, None at the end.
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
        self._checks = Checks(before=self._before, after=self._after)
        self._start = time.perf_counter()
        self._section: dict[str, Any] = {"seconds": 0.0, "checks": self._checks.records}
        self._section |= {kind: [] for kind in ROWS}

    def run(self) -> None:
        """All of it."""
        self._record.setdefault("sections", {})[self._name] = self._section
        self._keep(None)
        SECTIONS[self._name](self._checks, self._setup, self._section)
        self._record["running"] = None
        self._section["seconds"] = round(time.perf_counter() - self._start, 2)
        self._save(self._record)

    def _keep(self, check: str | None) -> None:
        self._record["running"] = {"section": self._name, "check": check}
        self._section["seconds"] = round(time.perf_counter() - self._start, 2)
        self._save(self._record)

    def _before(self, check: str) -> None:
        self._keep(check)
        if check in self._setup.ended:
            raise Disagreement(self._setup.ended[check])
        if time.time() > self._setup.deadline:
            raise OutOfTime("no time was left")
        if self._setup.watched:  # a kernel that does not end cannot be stopped otherwise
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)

    def _after(self) -> None:
        if self._setup.watched:
            faulthandler.cancel_dump_traceback_later()
        last = self._checks.records[-1]
        self._keep(last["name"])
        if last["outcome"] == "fail":
            self._stop_if_lost()

    def _stop_if_lost(self) -> None:
        """Ends the process where a kernel has broken the device's context: nothing would work in it from then on."""
        if self._setup.device.type != "cuda":
            return
        try:
            torch.cuda.synchronize(self._setup.device)
        except RuntimeError as error:
            print(f"the device no longer answers: {error}".splitlines()[0], flush=True)
            os._exit(DEVICE_LOST)
