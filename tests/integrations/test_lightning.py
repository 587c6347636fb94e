"""A callback in a real Trainer of Lightning, beside torchmetrics and pycocotools."""

from __future__ import annotations

import importlib.util
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics.functional.classification as peer
from torch.utils.data import DataLoader, TensorDataset

from tests.checkout import ROOT
from tests.integrations.scenes import coco_stats, make_scene
from valor_gpu.classification import Accuracy, F1Score
from valor_gpu.detection import MeanAveragePrecision, coco_targets
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.metric import Metric

lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
X = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
Y = torch.randint(5, (40,), generator=torch.Generator().manual_seed(4))


class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """Logits that training moves."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(5))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(batch[0] + self.shift, batch[1])

    def validation_step(self, batch: Any, index: int, dataloader_idx: int = 0) -> dict[str, torch.Tensor]:
        return {"preds": batch[0] + self.shift, "target": batch[1]}

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1.0)


def callback(metrics: Any = None, inputs: Any = None, **options: Any) -> Any:
    from valor_gpu.integrations.lightning import MetricCallback

    return MetricCallback(metrics or named(), inputs, **options)


def named() -> dict[str, Metric[Any]]:
    return {"accuracy": Accuracy(num_classes=5), "f1": F1Score(num_classes=5, average="macro")}


def trainer(folder: Path, *callbacks: Any, **options: Any) -> Any:
    return lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, default_root_dir=folder, callbacks=list(callbacks), **options,
    )  # fmt: skip


def loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(X, Y), batch_size=16)


def test_training_logs_torchmetrics_numbers_after_every_epoch(tmp_path: Path) -> None:
    measured = callback()
    seen = []

    class Watch(lightning.Callback):  # type: ignore[misc, name-defined]
        def on_sanity_check_end(self, trainer: Any, module: Any) -> None:
            assert measured.results == {}

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if not trainer.sanity_checking:
                seen.append((dict(trainer.callback_metrics), module.shift.detach().clone()))

    stop = lightning.callbacks.EarlyStopping("val/accuracy", mode="max", patience=5)
    model, runner = Model(), trainer(tmp_path, measured, stop, Watch())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's own, about workers and signals
        runner.fit(model, loader(), loader())
        [tested] = runner.test(model, loader(), verbose=False)
    assert len(seen) == 2
    for logged, shift in seen:
        accuracy = peer.multiclass_accuracy(X + shift, Y, 5, average="micro")
        assert float(logged["val/accuracy"]) == pytest.approx(float(accuracy))
        assert float(logged["val/f1"]) == pytest.approx(float(peer.multiclass_f1_score(X + shift, Y, 5)))
    assert tested == {
        "test/accuracy": pytest.approx(float(logged["val/accuracy"])), "test/f1": pytest.approx(float(logged["val/f1"]))
    }  # fmt: skip
    assert measured.results["test"]["f1"].counts["samples"] == 40


def test_average_precision_of_a_detector_has_the_bits_of_pycocotools(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    targets = coco_targets(scene.file)
    measured = callback(
        MeanAveragePrecision(box_format="xywh"), lambda outputs, batch: (outputs, [targets[i] for i in batch])
    )
    draw, results = torch.Generator().manual_seed(1), []
    for row in scene.annotations:
        box = (torch.tensor(row["bbox"]).double() + 5 * torch.randn(4, generator=draw).double()).clamp(min=1)
        score = float(torch.rand((), generator=draw))
        results.append({**{k: row[k] for k in ("image_id", "category_id")}, "bbox": box.tolist(), "score": score})

    class Detector(Model):
        def validation_step(self, batch: Any, index: int, dataloader_idx: int = 0) -> Any:
            return [
                {
                    "boxes": torch.tensor([r["bbox"] for r in rows], dtype=torch.float64).reshape(-1, 4),
                    "scores": torch.tensor([r["score"] for r in rows]),
                    "labels": torch.tensor([r["category_id"] for r in rows], dtype=torch.int64),
                }
                for rows in ([r for r in results if r["image_id"] == i] for i in batch)
            ]

    images = DataLoader([image["id"] for image in scene.images], batch_size=4, collate_fn=list)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [logged] = trainer(tmp_path, measured).validate(Detector(), images, verbose=False)
    stats = coco_stats(scene, results)
    numbers = measured.results["validation"][""].scalars()
    assert [numbers[name] for name in ("map", "map_50", "map_75", "map_small")] == stats[:4]
    assert logged["val/map"] == pytest.approx(stats[0])


def test_several_loaders_need_a_choice(tmp_path: Path) -> None:
    half = DataLoader(TensorDataset(X[:8], Y[:8]), batch_size=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match="dataloader must say which of several data loaders is measured"):
            trainer(tmp_path, callback()).validate(Model(), [loader(), half], verbose=False)
        measured = callback(dataloader=1)
        trainer(tmp_path, measured).validate(Model(), [loader(), half], verbose=False)
    assert measured.results["validation"]["f1"].counts["samples"] == 8


def test_the_guide_runs() -> None:
    guide = (ROOT / "docs/guides/trainers.md").read_text().partition("## Hugging Face")[0]
    blocks = re.findall(r"^```py\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "trainers.md", "exec", dont_inherit=True), names)
    assert len(blocks) == 2 and isinstance(names["measured"], lightning.Callback)


def test_bad_arguments_are_named() -> None:
    from valor_gpu.integrations.lightning import preds_and_target

    with pytest.raises(InputTypeError, match=r"the step must return a dict with preds and target.*it returned Tensor"):
        preds_and_target(X, None)
    with pytest.raises(InputError, match=r"prefixes must be those of \['test', 'validation'\] but has \['train'\]"):
        callback(prefixes={"train": "train/"})
    with pytest.raises(InputError, match="dataloader must be"):
        callback(dataloader=-1)


def test_a_callback_travels_to_other_processes() -> None:
    measured = pickle.loads(pickle.dumps(callback()))
    assert type(measured) is type(callback()) and isinstance(measured, lightning.Callback)


def test_without_lightning_an_import_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from valor_gpu.integrations import lightning as integration

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(vars(integration), "MetricCallback", raising=False)
    with pytest.raises(ImportError, match=r"^MetricCallback needs pytorch_lightning: pip install lightning$"):
        integration.MetricCallback()
