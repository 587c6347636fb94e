"""The host is timed in calls that follow one another, with no metric on the CPU between them."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import gpu_budgets
from benchmarks.checks import Disagreement, Later
from benchmarks.gpu_works import Work
from testing import datasets

CPU = torch.device("cpu")


class Stub:
    """A metric whose calls advance a clock: the first of each kind by 100 s, others by 1 s."""

    def __init__(self, log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.log, self.name, self.now, self.values = log, "CPU", 0.0, {"map": torch.ones(1)}
        monkeypatch.setattr(gpu_budgets, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def to(self, _: torch.device) -> Stub:
        self.name = "device"
        return self

    def reset(self) -> None:
        self.log.append("reset")

    def update(self, *_: Any) -> None:
        self._passes("update")

    def compute(self) -> dict[str, Any]:
        self._passes("compute")
        return self.values

    def _passes(self, what: str) -> None:
        self.now += 1.0 if f"{self.name} {what}" in self.log else 100.0
        self.log.append(f"{self.name} {what}")


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> list[Stub]:
    """The metrics that gpu_budgets makes: one for the device, one for the CPU."""
    made = [Stub([], monkeypatch)]
    made.append(copy.copy(made[0]))
    taken = iter(made)
    monkeypatch.setattr(gpu_budgets, "MeanAveragePrecision", lambda: next(taken))
    for name in ("device_time", "wall_seconds"):
        monkeypatch.setattr(gpu_budgets, name, lambda *_, **__: {"median": 1.0})
    return made


BATCHES = [(torch.ones(1), torch.ones(1))] * 4


def test_updates_follow_one_another(stubs: list[Stub]) -> None:
    row = gpu_budgets._time_updates("updates", lambda: BATCHES, CPU, ())
    passes = ["reset", *["device update"] * 4] * 3
    assert stubs[0].log == [*passes, *["CPU update"] * 4, "device compute", "CPU compute"]
    assert row["host_seconds"] == {"median": 1.0, "min": 1.0, "max": 1.0, "runs": 8}  # without the first pass


def test_computes_follow_one_another(stubs: list[Stub]) -> None:
    scene = Later("scene", lambda: datasets.make(datasets.CASES["val2017"], 2))
    work = Work("small", scene, "val2017", batches=True, repeats=3)
    row = gpu_budgets._time_compute("compute", Later("tensors", lambda: ((), ())), CPU, work)
    assert stubs[0].log == ["device update", *["device compute"] * 5, "CPU update", "device compute", "CPU compute"]
    assert row["host_seconds"] == {"median": 1.0, "min": 1.0, "max": 1.0, "runs": 3}  # without the first two
    assert stubs[0]._computed is None and stubs[0]._merged is None  # type: ignore[attr-defined]


def test_another_result_than_that_of_the_cpu_gets_no_time(stubs: list[Stub]) -> None:
    stubs[1].values = {"map": torch.zeros(1)}
    with pytest.raises(Disagreement, match="AP on cpu is not that on the CPU: output 0: 1 of 1 values"):
        gpu_budgets._time_updates("updates", lambda: BATCHES, CPU, ())
