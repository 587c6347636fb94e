"""``Result.log`` into loggers, those that are installed themselves, and ``assert_metrics`` as function and fixture."""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
import types
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT
from valor_gpu import Result, Signature
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.stats import Interval, Intervals
from valor_gpu.testing import assert_metrics

VALUES = {"map": 0.41, "map_small": math.nan, "map_per_class": {"cat": 0.25, "c++": 0.5}}
RESULT = Result(VALUES, Signature({"metric": "AP"}), {"images": 100}, {"map_small": "no small ground truth"})


def same(logged: dict[str, float], expected: dict[str, float]) -> bool:
    """Equal names and numbers, NaN where NaN is expected."""
    return logged.keys() == expected.keys() and all(
        logged[k] == v or (math.isnan(v) and math.isnan(logged[k])) for k, v in expected.items()
    )


def test_numbers_of_classes_alone_are_logged_by_class() -> None:
    import torch

    from valor_gpu.classification import AUROC, EER, ROC, ConfusionMatrix, MulticlassAccuracy, StatScores

    scores, target = torch.eye(3)[[0, 1, 1]], torch.tensor([0, 1, 2])

    def logged(metric: Any) -> dict[str, float]:
        metric.update(scores, target)
        return dict(metric.result().scalars("val/"))

    assert logged(MulticlassAccuracy(3, average=None)) == {
        f"val/MulticlassAccuracy/{c}": float(c < 2) for c in range(3)
    }
    assert logged(AUROC(3, average=None)) == {"val/AUROC/0": 1.0, "val/AUROC/1": 0.75, "val/AUROC/2": 0.5}
    assert set(logged(EER(3))) == {f"val/EER/{c}" for c in range(3)}
    counts = logged(StatScores(3, average=None))
    assert (
        len(counts) == 15
        and counts["val/fp/1"] == 1
        and set(logged(MulticlassAccuracy(3))) == {"val/MulticlassAccuracy"}
    )
    assert logged(ROC(3)) == logged(ConfusionMatrix(3)) == {}


def test_lightning_loggers_write_every_number(tmp_path: Path) -> None:
    loggers = pytest.importorskip("lightning.pytorch.loggers", reason="lightning is not installed")
    logger = loggers.CSVLogger(tmp_path)
    RESULT.log(logger, step=7, prefix="val/")
    logger.save()
    [row] = csv.DictReader(Path(logger.log_dir, "metrics.csv").read_text().splitlines())
    assert row.pop("step") == "7"
    assert same({name: float(value) for name, value in row.items()}, RESULT.scalars("val/"))


def test_a_lightning_module_logs_at_its_own_step() -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.seen: dict[str, float] = {}

        def log(self, name: str, value: float, **options: Any) -> None:
            self.seen[name] = value

    module = Module()
    RESULT.log(module)
    assert same(module.seen, RESULT.scalars())
    with pytest.raises(InputError, match="step must be None for a Module, which logs at its own step, but got 3"):
        RESULT.log(module, step=3)


def test_fabric_takes_a_step() -> None:
    fabric = pytest.importorskip("lightning.fabric", reason="lightning is not installed")
    seen = []

    class Logger(fabric.loggers.CSVLogger):  # type: ignore[misc, name-defined]
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            seen.append((dict(metrics), step))

    RESULT.log(fabric.Fabric(accelerator="cpu", devices=1, loggers=[Logger("unused")]), step=5)
    [(logged, step)] = seen
    assert step == 5 and same(logged, RESULT.scalars())


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        RESULT.log(writer, step=2)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = {name: events.Scalars(name)[0] for name in events.Tags()["scalars"]}
    assert {event.step for event in found.values()} == {2} and found.keys() == RESULT.scalars().keys()
    assert found["map"].value == pytest.approx(0.41, abs=1e-7)  # float32


def test_mlflow_refuses_some_names(tmp_path: Path) -> None:
    """The module by its name and function, since importing it takes seconds; the package itself below."""
    seen: dict[str, Any] = {}
    mlflow: Any = types.ModuleType("mlflow")
    mlflow.log_metrics = lambda metrics, step=None: seen.update(metrics, step=step)
    mlflow.log_dict = None  # writes a file there, and must not be taken for that of Lightning
    RESULT.log(mlflow, step=1)
    assert seen.pop("step") == 1 and set(seen) == {"map", "map_small", "map_per_class/cat", "map_per_class/c__"}
    twice = Result({"per_class": {"c+": 0.0, "c-": 0.0, "c*": 0.0}}, Signature({}))
    with pytest.raises(InputError, match=r"'per_class/c\+' and 'per_class/c\*' are both 'per_class/c_' there"):
        twice.log(mlflow)


def test_wandb_takes_all_numbers_in_one_call() -> None:
    calls: list[Any] = []
    run = types.SimpleNamespace(log=lambda values, step=None: calls.append((values, step)))
    RESULT.log(run, step=9, prefix="val/")
    [(values, step)] = calls
    assert step == 9 and same(values, RESULT.scalars("val/"))


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputTypeError, match=r"logger must be the module or a run of wandb, .* but got str"):
        RESULT.log("wandb")


def test_conditions_on_numbers_and_counts() -> None:
    assert_metrics(RESULT, "map >= 0.37", "map_per_class/cat > 20%", "counts/images == 100", "map_per_class/c++ < 1")
    with pytest.raises(
        AssertionError, match=r"(?s)^map >= 0\.5 does not hold: it is 0\.41\nmap_small .* no small"
    ) as e:
        assert_metrics(RESULT, "map >= 0.5", "map_small >= 0", "map_per_class/cat > 0")
    assert "metric:AP" in str(e.value) and "cat >" not in str(e.value)
    with pytest.raises(InputError, match="'mop' is none; did you mean"):
        assert_metrics(RESULT, "mop >= 0.5")
    with pytest.raises(InputError, match="at least one condition"):
        assert_metrics(RESULT)


def test_conditions_may_name_the_ends_of_intervals() -> None:
    result = Result({"map": 0.41}, Signature({"metric": "AP"}), intervals=Intervals({"map": Interval(0.36, 0.46)}))
    assert_metrics(result, "map_low >= 0.35", "map_high < 0.5")
    with pytest.raises(AssertionError, match=r"(?s)^map_low >= 0\.37 .*map  0\.4100  \(0\.3600 to 0\.4600\)"):
        assert_metrics(result, "map >= 0.4", "map_low >= 0.37")


def test_fixture_notes_numbers_for_the_report(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(
        "from valor_gpu import Result, Signature\n"
        "RESULT = Result({'map': 0.41}, Signature({}))\n"
        "def test_good(assert_metrics): assert_metrics(RESULT, 'map >= 0.3', 'map < 0.5')\n"
        "def test_bad(assert_metrics): assert_metrics(RESULT, 'map >= 0.5 and map < 2')\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "valor_gpu.pytest_plugin",
        "--junit-xml=r.xml",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "1 failed, 1 passed" in run.stdout, run.stdout + run.stderr
    assert "AssertionError: map >= 0.5 and map < 2 does not hold: it is 0.41" in run.stdout
    cases = {each.get("name"): each for each in ElementTree.parse(tmp_path / "r.xml").iter("testcase")}
    for case in cases.values():
        [noted] = case.iter("property")
        assert (noted.get("name"), noted.get("value")) == ("map", "0.41")


def test_the_plugin_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, valor_gpu.pytest_plugin; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT) == "[]\n"
