"""COCO's numbers in a validator of Ultralytics: one that is played, and a real one where the package is."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.integrations.scenes import Scene, coco_stats, make_scene
from valor_gpu.integrations import lazy_types, ultralytics

INSTALLED = importlib.util.find_spec("ultralytics") is not None
NAMES = ("map", "map_50", "map_75", "map_medium")


class PlayedValidator:
    """What the adapter uses of ``DetectionValidator``: boxes of labels and predictions are at half size."""

    def __init__(self, dataloader: Any = None, save_dir: Any = None, args: Any = None, _callbacks: Any = None) -> None:
        self.dataloader, self.save_dir, self.args, self.callbacks = dataloader, save_dir, args, _callbacks
        self.device, self.metrics, self.gathered = torch.device("cpu"), SimpleNamespace(), 0

    def init_metrics(self, model: Any) -> None:
        self.seen = 0

    def update_metrics(self, preds: list[Any], batch: dict[str, Any]) -> None:
        self.seen += len(preds)

    def _prepare_batch(self, index: int, batch: dict[str, Any]) -> dict[str, Any]:
        return dict(batch["images"][index])

    def _prepare_pred(self, pred: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return pred

    def scale_preds(self, pred: dict[str, torch.Tensor], truth: dict[str, Any]) -> dict[str, torch.Tensor]:
        return {**pred, "bboxes": pred["bboxes"] * 2}

    def gather_stats(self) -> None:
        self.gathered += 1

    def get_stats(self) -> dict[str, float]:
        return {"metrics/mAP50(B)": 0.5}


class PlayedTrainer:
    def get_validator(self) -> PlayedValidator:
        return PlayedValidator("loader", "folder", "args", "callbacks")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter over played bases, forgotten after the test."""
    kinds = {"DetectionValidator": PlayedValidator, "DetectionTrainer": PlayedTrainer}
    monkeypatch.setattr(ultralytics, "trainer_type", lambda *names: kinds[names[3]])
    forget()
    yield ultralytics
    forget()


def forget() -> None:
    for name in ("CocoValidator", "CocoTrainer"):
        vars(ultralytics).pop(name, None)


def corners(boxes: list[list[float]]) -> torch.Tensor:
    rows = torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4)
    return torch.cat([rows[:, :2], rows[:, :2] + rows[:, 2:]], 1)


def image_batch(scene: Scene, image: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Predictions near the labels of an image, and its labels, at half size."""
    draw, rows = torch.Generator().manual_seed(image["id"] + 1000 * scene.epoch), scene.of(image["id"])
    boxes = corners([row["bbox"] for row in rows])
    kinds = torch.tensor([float(row["category_id"]) for row in rows])
    near = boxes + 4 * torch.randn(boxes.shape, generator=draw)
    truth = {"bboxes": boxes / 2, "cls": kinds, "im_file": f"images/{image['id']:012d}.jpg"}
    return {"bboxes": near / 2, "conf": torch.rand(len(rows), generator=draw), "cls": kinds}, truth


def played_scene(folder: Path) -> Scene:
    """Without crowds, and with the corners and areas that labels of YOLO have."""
    scene = make_scene(folder)
    for row in scene.annotations:
        x, y, right, bottom = corners([row["bbox"]])[0].tolist()
        row.update(iscrowd=0, bbox=[x, y, right - x, bottom - y], area=(right - x) * (bottom - y))
    scene.write()
    return scene


def whole_results(scene: Scene, pairs: list[Any]) -> list[dict[str, Any]]:
    """COCO results, in the pixels of the original images."""
    return [
        {"image_id": image["id"], "category_id": int(k), "bbox": [x, y, right - x, bottom - y], "score": score}
        for image, (pred, _) in zip(scene.images, pairs)
        for (x, y, right, bottom), score, k in zip(
            (pred["bboxes"] * 2).tolist(), pred["conf"].tolist(), pred["cls"].tolist()
        )
    ]


def test_numbers_are_those_of_pycocotools(played: Any, tmp_path: Path) -> None:
    scene = played_scene(tmp_path)
    validator = played.CocoValidator()
    for scene.epoch in range(2):
        pairs = [image_batch(scene, image) for image in scene.images]
        expected = coco_stats(scene, whole_results(scene, pairs))
        assert expected[0] > 0.05
        validator.init_metrics(None)
        for part in (pairs[:4], pairs[4:]):
            validator.update_metrics([pred for pred, _ in part], {"images": [truth for _, truth in part]})
        validator.gather_stats()
        stats = validator.get_stats()
        assert [stats[f"coco/{name}"] for name in NAMES] == [*expected[:3], expected[4]]
    assert validator.gathered == 2 and validator.seen == 6 and stats["metrics/mAP50(B)"] == 0.5
    assert validator.metrics.coco_result.counts["images"] == 6
    assert not any("per_class" in name for name in stats)


def test_a_trainer_validates_with_it(played: Any) -> None:
    validator = played.CocoTrainer().get_validator()
    assert type(validator) is played.CocoValidator
    assert (validator.dataloader, validator.save_dir, validator.args, validator.callbacks) == (
        "loader", "folder", "args", "callbacks",
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(played.CocoTrainer)) is played.CocoTrainer


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_types.importlib.util, "find_spec", lambda name: None)
    forget()
    with pytest.raises(ImportError, match="CocoValidator needs ultralytics: pip install ultralytics"):
        ultralytics.CocoValidator()
    monkeypatch.setattr(ultralytics, "trainer_type", lambda *names: object)
    with pytest.raises(ImportError, match=r"whose validators have gather_stats: pip install ultralytics -U"):
        ultralytics.CocoValidator()


def write_images(root: Path) -> Path:
    """Eight images with rectangles, labels of YOLO and a data file."""
    from PIL import Image

    draw = np.random.default_rng(0)
    for index in range(8):
        for part in ("images", "labels"):
            (root / part).mkdir(exist_ok=True)
        width, height, rows = 160 + 8 * index, 120, []
        picture = np.full((height, width, 3), 30, np.uint8)
        for _ in range(index % 4):
            w, h = draw.integers(16, 70, 2).tolist()
            x, y, kind = int(draw.integers(0, width - w)), int(draw.integers(0, height - h)), int(draw.integers(2))
            picture[y : y + h, x : x + w] = (220, 40, 40 + 180 * kind)
            rows.append(f"{kind} {(x + w / 2) / width} {(y + h / 2) / height} {w / width} {h / height}")
        Image.fromarray(picture).save(root / "images" / f"{index:04d}.png")
        (root / "labels" / f"{index:04d}.txt").write_text("\n".join(rows))
    data = root / "data.yaml"
    data.write_text(f"path: {root}\ntrain: images\nval: images\nnames: {{0: a, 1: b}}\n")
    return data


def moved_labels(validator: Any, preds: list[dict[str, torch.Tensor]], batch: dict[str, Any], kept: list[Any]) -> None:
    """Adds to the predictions of an untrained model its labels, moved a little; keeps all in pixels of the image."""
    for index, pred in enumerate(preds):
        truth = validator._prepare_batch(index, batch)
        draw, number = torch.Generator().manual_seed(index), len(truth["cls"])
        near = truth["bboxes"] + 3 * torch.randn(number, 4, generator=draw)
        more = {"bboxes": near, "conf": torch.rand(number, generator=draw), "cls": truth["cls"]}
        more["extra"] = torch.zeros(number, 0)
        preds[index] = pred = {name: torch.cat([pred[name], value]) for name, value in more.items()}
        key, whole = int(Path(truth["im_file"]).stem), validator.scale_preds(pred, truth)["bboxes"]
        known = validator.scale_preds({"bboxes": truth["bboxes"]}, truth)["bboxes"]
        kept.append((key, whole.double().tolist(), pred, known.double().tolist(), truth["cls"].tolist()))


def kept_scene(folder: Path, kept: list[Any]) -> tuple[Scene, list[dict[str, Any]]]:
    scene = Scene(folder / "kept.json", [{"id": key} for key, *_ in kept], [], [{"id": 0}, {"id": 1}])
    results = []
    for key, boxes, pred, known, kinds in kept:
        for (x, y, right, bottom), score, kind in zip(boxes, pred["conf"].tolist(), pred["cls"].tolist()):
            box = [x, y, right - x, bottom - y]
            results.append({"image_id": key, "category_id": int(kind), "bbox": box, "score": score})
        for (x, y, right, bottom), kind in zip(known, kinds):
            box, area = [x, y, right - x, bottom - y], (right - x) * (bottom - y)
            row = {"id": len(scene.annotations) + 1, "image_id": key, "category_id": int(kind), "iscrowd": 0}
            scene.annotations.append({**row, "bbox": box, "area": area})
    scene.write()
    return scene, results


@pytest.mark.skipif(not INSTALLED, reason="ultralytics is not installed")
@pytest.mark.filterwarnings("ignore")  # its own
def test_a_yolo_trains_and_validates(tmp_path: Path) -> None:
    from ultralytics import YOLO

    kept: list[Any] = []

    class Watched(ultralytics.CocoValidator):  # type: ignore[misc, valid-type]
        def update_metrics(self, preds: list[dict[str, torch.Tensor]], batch: dict[str, Any]) -> None:
            moved_labels(self, preds, batch, kept)
            super().update_metrics(preds, batch)

    options = {"data": str(write_images(tmp_path)), "imgsz": 160, "device": "cpu", "plots": False, "workers": 0}
    options |= {"project": str(tmp_path), "exist_ok": True, "verbose": False}
    with contextlib.redirect_stdout(io.StringIO()):
        model = YOLO("yolov8n.yaml")
        model.train(trainer=ultralytics.CocoTrainer, epochs=1, batch=4, name="train", amp=False, **options)
        metrics = model.val(validator=Watched, batch=3, name="val", **options)
    assert "coco/map_50" in (tmp_path / "train/results.csv").read_text().splitlines()[0]
    expected = coco_stats(*kept_scene(tmp_path, kept))
    numbers = metrics.coco_result.scalars()
    assert expected[0] > 0.1
    assert [numbers[name] for name in NAMES] == [*expected[:3], expected[4]]
