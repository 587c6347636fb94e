"""One row per op at val2017 scale, on the CPU: ``pytest benchmarks/bench_ops.py``; ``--images 200`` for a small one.

A row is timed only after its examples have proved equal to the reference, the reader's columns to those of json.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testing import examples_pixels, examples_rotated, formats
from testing.datasets import CASES, BoxDataset, make
from testing.parity import differences
from testing.registry import ROWS, call, disagreement, moved_bytes
from valor_gpu.inputs.coco import (
    Annotations,
    Dataset,
    columns_from_dataset,
    columns_from_results,
    read_ground_truth,
    read_results,
)
from valor_gpu.ops import rotated_box_iou
from valor_gpu.ops.pixel_counts import cpu as _pixel_counts_cpu
from valor_gpu.valor import Annotation, Datum, GroundTruth, Label, Prediction, Raster, evaluate_segmentation
from valor_gpu.valor.enums import MetricType

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def images(request: pytest.FixtureRequest) -> int:
    """How many images, by ``--images``."""
    return int(request.config.getoption("--images"))


@pytest.fixture(scope="session")
def scene(images: int) -> BoxDataset:
    """The val2017 case."""
    return make(CASES["val2017"], images)


@pytest.fixture(scope="session")
def files(images: int) -> formats.Files:
    """The same dataset on disk."""
    return formats.cached(CASES["val2017"], images)


@pytest.mark.parametrize("name", ROWS)
def test_op(benchmark: Any, scene: BoxDataset, name: str) -> None:
    row = ROWS[name]
    for example in row.examples(True):
        assert disagreement(row, example, CPU) == "", example.name
    arguments = row.load(scene)
    result = benchmark(call(name), *arguments)
    benchmark.extra_info["bytes"] = moved_bytes(arguments, result)


@pytest.mark.parametrize("library", ["valor_gpu", "shapely"])
def test_rotated_iou(benchmark: Any, scene: BoxDataset, library: str) -> None:
    """400 x 300 pairs; both sides of shapely are polygons before the clock starts, as ours are tensors."""
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    boxes, gt_boxes, *_ = examples_rotated.iou_load(scene)
    sides = [rows[:count].double() for rows, count in ((boxes, 400), (gt_boxes, 300))]
    first, second = (shapely.polygons(examples_rotated.corners(rows).numpy().reshape(-1, 4, 2)) for rows in sides)

    def intersections() -> Any:
        return shapely.area(shapely.intersection(first[:, None], second[None]))

    own = [(rows[:, 2] * rows[:, 3]).numpy() for rows in sides]
    shared = intersections()
    ours = rotated_box_iou(*sides).numpy() * (own[0][:, None] + own[1] - shared)
    assert (abs(ours - shared) <= 1e-12 * np.maximum(own[0][:, None], own[1])).all()
    benchmark(intersections if library == "shapely" else lambda: rotated_box_iou(*sides))
    benchmark.extra_info["pairs"] = shared.size


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
@pytest.mark.parametrize("library", ["valor_gpu", "numpy", "torchmetrics"])
def test_label_maps(benchmark: Any, scene: BoxDataset, library: str, dtype: type) -> None:
    """The confusion matrix of 19 classes from label maps of 1024 x 2048, one for every 500 images."""
    preds, truth = (side.numpy().astype(dtype) for side in examples_pixels.maps_load(scene))
    ours = partial(_pixel_counts_cpu.count_pixels, preds, truth, 19, pairs=True)
    counts = {"valor_gpu": ours, "numpy": partial(_bincount, preds, truth)}
    if library == "torchmetrics":
        functional = pytest.importorskip("torchmetrics.functional.classification")
        sides = torch.from_numpy(preds).long(), torch.from_numpy(truth).long()
        count = functional.multiclass_confusion_matrix
        counts[library] = lambda: count(*sides, 19, validate_args=False).numpy()
    assert np.array_equal(counts[library](), ours())
    benchmark(counts[library])
    benchmark.extra_info["pixels"] = truth.size


def _bincount(preds: Any, truth: Any) -> Any:
    return np.bincount((truth.astype(np.int64) * 19 + preds).reshape(-1), minlength=361).reshape(19, 19)


@pytest.mark.parametrize("library", ["valor_gpu", "numpy", "valor_lite"])
def test_masks_of_labels(benchmark: Any, library: str) -> None:
    """mIOU from a mask of each of 20 labels on both sides of an image of 1024 x 1024, 5 % of the pixels wrong."""
    rng = np.random.default_rng(0)
    truth = np.kron(rng.integers(0, 21, (16, 16)), np.ones((64, 64), np.int64)).astype(np.uint8)
    preds = np.where(rng.random(truth.shape) < 0.05, rng.integers(0, 21, truth.shape), truth).astype(np.uint8)
    sides = [[side == label for label in range(1, 21)] for side in (truth, preds)]
    counts = {"valor_gpu": partial(_mean_iou, sides), "numpy": partial(_numpy_mean_iou, sides)}
    if library == "valor_lite":
        counts[library] = partial(_lite_mean_iou, pytest.importorskip("valor_lite.semantic_segmentation"), sides)
    assert counts[library]() == pytest.approx(counts["numpy"](), abs=1e-12)
    benchmark(counts[library])
    benchmark.extra_info["bytes"] = 40 * truth.size


def _mean_iou(sides: Any) -> float:
    truth, found = (
        [Annotation(labels=[Label("c", str(label))], raster=Raster(mask)) for label, mask in enumerate(side)]
        for side in sides
    )
    image = Datum("image")
    evaluation = evaluate_segmentation(
        [GroundTruth(image, truth)], [Prediction(image, found)], metrics_to_return=[MetricType.mIOU]
    )
    return float(evaluation.metrics[0]["value"])


def _numpy_mean_iou(sides: Any) -> float:
    both = [(np.count_nonzero(a & b), np.count_nonzero(a | b)) for a, b in zip(*sides)]
    return float(np.mean([shared / joined for shared, joined in both]))


def _lite_mean_iou(lite: Any, sides: Any) -> float:
    """valor-lite takes label maps."""
    maps = np.zeros((2, *sides[0][0].shape), np.uint16)
    for side, drawn in zip(sides, maps):
        for label, mask in enumerate(side):
            drawn[mask] = label + 1
    names = [str(label) for label in range(20)]
    loader = lite.Loader.in_memory()
    loader.add_data([lite.Segmentation(uid="image", groundtruths=maps[0], predictions=maps[1], labels=names)])
    metrics = loader.finalize().compute_precision_recall_iou()
    return float(next(m.value for listed in metrics.values() for m in listed if m.type == "mIOU"))


@pytest.mark.parametrize("side", ["gt", "found"])
def test_json(benchmark: Any, files: formats.Files, side: str) -> None:
    path: Path = getattr(files, side)
    value = json.loads(path.read_text())
    if side == "gt":
        got: Any = benchmark(read_ground_truth, path)
        expected: Any = columns_from_dataset(value)
    else:
        got = benchmark(read_results, path)
        expected = columns_from_results(value)
    assert differences(_columns(got), _columns(expected)) == ""
    benchmark.extra_info["bytes"] = path.stat().st_size


def _columns(data: Dataset | Annotations) -> list[torch.Tensor]:
    rows = data.annotations if isinstance(data, Dataset) else data
    names = ("id", "image_id", "category_id", "bbox", "area", "iscrowd", "ignore", "score")
    return [torch.from_numpy(getattr(rows, name)) for name in names]
