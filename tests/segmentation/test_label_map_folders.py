"""Counts and numbers of label maps in files: scikit-learn's confusion matrix is the oracle."""

from __future__ import annotations

import json
import math
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.inputs.label_map_files import LabelMapReader
from valor_gpu.inputs.label_map_pairs import Pair
from valor_gpu.segmentation import PixelAccuracy, PixelF1, PixelPrecision, label_map_folders, mIOU
from valor_gpu.segmentation.label_map_folders import NUMBERS, ImageCounts, Task, Totals, count_images
from valor_gpu.segmentation.running_means import RunningMean


@pytest.fixture(params=["C++", "torch"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What counts."""
    name: str = request.param
    if name == "torch":
        monkeypatch.setattr(label_map_folders.native, "usable", lambda library: False)
    elif not native.available("valor_cpu"):
        pytest.skip(native.reason("valor_cpu"))
    return name


def saved(folder: Path, name: str, truth: NDArray[Any], found: NDArray[Any]) -> Pair:
    paths = [folder / f"{name}_{side}.npy" for side in ("gt", "pred")]
    for path, array in zip(paths, (truth, found)):
        np.save(path, array)
    return Pair(name, *map(str, paths))


def scene(rng: np.random.Generator, classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Maps of random sizes and types; some logits, some classes absent."""
    shape = tuple(rng.integers(1, 30, 2))
    present = rng.permutation(classes)[: rng.integers(1, classes + 1)]
    truth, found = rng.choice(present, shape), rng.choice(present, shape)
    truth[rng.random(shape) < 0.2] = 255
    kinds = ("u1", "u2", "i4", "i8")
    typed = [array.astype(rng.choice(kinds)) for array in (truth, found)]
    if rng.random() < 0.3:
        logits = rng.normal(size=(classes, *shape)).astype(rng.choice(["f2", "f4", "f8"]))
        return typed[0], logits
    return typed[0], np.asfortranarray(typed[1]) if rng.random() < 0.3 else typed[1]


def of_matrix(matrix: NDArray[Any]) -> tuple[dict[str, float], NDArray[Any]]:
    """Means and IoU by their definitions, class by class."""
    ious, recalls, precisions, f1s, weights = [], [], [], [], []
    for c in range(len(matrix)):
        tp, true, predicted = matrix[c, c], matrix[c].sum(), matrix[:, c].sum()
        there = true + predicted > 0
        ious.append(tp / (true + predicted - tp) if there else math.nan)
        recalls.append(tp / true if true else 0.0 if there else math.nan)
        precisions.append(tp / predicted if predicted else 0.0 if there else math.nan)
        f1s.append(2 * tp / (true + predicted) if there else math.nan)
        weights.append(true)
    total = matrix.sum()
    means = {
        "miou": np.nanmean(ious),
        "pixel_accuracy": matrix.trace() / total,
        "mean_accuracy": np.nanmean(recalls),
        "frequency_weighted_iou": np.nansum(np.array(ious) * weights) / total,
        "mean_precision": np.nanmean(precisions),
        "mean_f1": np.nanmean(f1s),
    }
    return {name: float(value) for name, value in means.items()}, np.array(ious)


def test_numbers_are_those_of_the_confusion_matrix(engine: str, tmp_path: Path) -> None:
    for seed in seeds(6):
        rng = np.random.default_rng(seed)
        classes = int(rng.integers(1, 12))
        scenes = [scene(rng, classes) for _ in range(5)]
        scenes = [(truth, found) for truth, found in scenes if (truth != 255).any()]
        pairs = [saved(tmp_path, f"{seed}_{i}", *maps) for i, maps in enumerate(scenes)]
        names = [f"class {c}" for c in range(classes)]
        task = Task(classes, 255, threads=int(rng.integers(1, 4)))
        totals = Totals(names, task)
        whole, each, by_class = np.zeros((classes, classes), int), [], []
        for (truth, found), image in zip(scenes, count_images(pairs, task)):
            kept = truth != 255
            labels = found.argmax(0) if found.ndim == 3 else found
            matrix = confusion_matrix(truth[kept], labels[kept], labels=range(classes))
            assert image.error == "" and image.counts is not None
            assert image.counts.tolist() == [m.tolist() for m in (matrix.diagonal(), matrix.sum(0), matrix.sum(1))]
            assert (image.pixels, image.ignored) == (kept.size, (~kept).sum())
            assert image.wrong == matrix.sum() - matrix.trace()
            expected, ious = of_matrix(matrix)
            assert totals.add(image) == pytest.approx(expected, rel=1e-15, abs=0)
            whole, each, by_class = whole + matrix, [*each, expected], [*by_class, ious]
        result = totals.result({})
        expected, ious = of_matrix(whole)
        assert {name: result.values[name] for name in NUMBERS} == pytest.approx(expected, rel=1e-15, abs=0)
        means = {name: np.mean([numbers[name] for numbers in each]) for name in NUMBERS}
        assert {name: result.values[f"image_{name}"] for name in NUMBERS} == pytest.approx(means, rel=1e-14)
        present = [np.array(column)[~np.isnan(column)] for column in zip(*by_class)]
        expected_means = [column.mean() if len(column) else math.nan for column in present]
        assert list(result.values["image_iou_per_class"].values()) == pytest.approx(expected_means, nan_ok=True)
        assert list(result.values["iou_per_class"].values()) == pytest.approx(list(ious), nan_ok=True)
        assert list(result.values["true_pixels_per_class"].values()) == whole.sum(1).tolist()
        assert list(result.values["predicted_pixels_per_class"].values()) == whole.sum(0).tolist()
        assert list(result.values["images_per_class"].values()) == [len(column) for column in present]
        assert result.counts["pixels"] == sum(truth.size for truth, _ in scenes) and result.counts["images"] == len(
            scenes
        )
        assert result.counts["ignored"] == sum(int((truth == 255).sum()) for truth, _ in scenes)
        assert result.counts["absent_classes"] == np.isnan(ious).sum()


def test_a_case_by_hand(tmp_path: Path) -> None:
    """Two images; class 2 only in the second, class 3 nowhere, class 1 never predicted."""
    pairs = [
        saved(tmp_path, "a", np.array([[0, 0, 0, 1]]), np.array([[0, 0, 0, 0]])),
        saved(tmp_path, "b", np.array([[0, 2, 2, 9]]), np.array([[2, 2, 2, 7]])),
    ]
    task = Task(4, 9)
    totals = Totals(["sky", "car", "road", "dog"], task)
    each = [totals.add(image) for image in count_images(pairs, task)]
    assert [numbers["miou"] for numbers in each] == [(3 / 4 + 0) / 2, (0 + 2 / 3) / 2]
    assert [numbers["pixel_accuracy"] for numbers in each] == [3 / 4, 2 / 3]
    result = totals.result({})
    assert result.values["iou_per_class"] == pytest.approx(
        {"sky": 3 / 5, "car": 0, "road": 2 / 3, "dog": math.nan}, nan_ok=True
    )
    assert result.values["miou"] == pytest.approx((3 / 5 + 2 / 3) / 3)
    assert result.values["image_miou"] == pytest.approx((3 / 8 + 1 / 3) / 2)
    assert result.values["mean_precision"] == pytest.approx((3 / 4 + 0 + 2 / 3) / 3)
    assert math.isnan(result.values["precision_per_class"]["car"])
    assert result.reasons == {
        "precision_per_class/car": "no pixel is predicted to be of this class",
        **{
            f"{name}_per_class/dog": "no counted pixel is true or predicted of this class"
            for name in ("iou", "precision", "recall", "f1", "image_iou")
        },
    }
    assert dict(result.counts) == {
        "images": 2, "pixels": 8, "ignored": 1, "classes": 4, "absent_classes": 1, "failed_images": 0
    }  # fmt: skip


def test_nothing_but_ignored_pixels_has_no_numbers(tmp_path: Path) -> None:
    task = Task(2, 255)
    totals = Totals(["a", "b"], task)
    image = next(iter(count_images([saved(tmp_path, "a", np.full((2, 3), 255), np.ones((2, 3), int))], task)))
    assert all(math.isnan(value) for value in totals.add(image).values())
    result = totals.result({})
    assert result.reason("miou") == result.reason("image_miou") == "no pixel counts"
    assert json.dumps(result.to_dict(), allow_nan=False)
    assert (image.pixels, image.ignored, result.counts["absent_classes"]) == (6, 6, 2)


@pytest.mark.parametrize(
    ("truth", "found", "said"),
    [
        (np.zeros((2, 3), int), np.zeros((3, 2), int),
         "{p} must have the height and width of {g}, 2 x 3, but has 3 x 2"),
        (np.zeros((2, 3), int), np.zeros((4, 2, 4)), "{p} must have the height and width of {g}, 2 x 3, but has 2 x 4"),
        (np.zeros((2, 3), int), np.zeros((4, 2, 3)), "{p} must have logits of 3 classes but has 4"),
        (
            np.zeros((2, 3), int),
            np.zeros((1, 2, 3)),
            "{p} must have logits of two or more classes but has one channel: for a binary mask save class"
            " indices, 1 where the probability is above 0.5",
        ),
        (np.array([[0, 1, 3]]), np.zeros((1, 3), int), "{g}[0, 2] must be a class index from 0 to 2 but is 3"),
        (np.zeros((2, 3), int), np.full((2, 3), -1), "{p}[0, 0] must be a class index from 0 to 2 but is -1"),
        (np.array([[0, 1, 70000]]), np.zeros((3, 1, 3)), "{g}[0, 2] must be a class index from 0 to 2 but is 70000"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_the_file(
    truth: NDArray[Any], found: NDArray[Any], said: str, engine: str, tmp_path: Path
) -> None:
    good = saved(tmp_path, "good", np.zeros((1, 1), int), np.zeros((1, 1), int))
    pair = saved(tmp_path, "bad", truth, found)
    images = list(count_images([good, pair, good], Task(3, threads=2)))
    assert [image.error for image in images] == ["", said.format(g=pair.ground_truth, p=pair.prediction), ""]
    assert (images[1].shape, images[1].counts, images[1].pixels, images[1].ignored) == (None, None, 0, 0)
    totals = Totals(["0", "1", "2"], Task(3))
    assert [bool(totals.add(image)) for image in images] == [True, False, True]
    assert totals.images == 2 and totals.failed == [images[1]]


def test_files_that_are_gone_or_too_large_fail_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = saved(tmp_path, "a", np.zeros((1, 1), int), np.zeros((1, 1), int))
    gone = Pair("b", pair.ground_truth, str(tmp_path / "gone.npy"))
    (tmp_path / "large.npy").touch()
    large = Pair("c", str(tmp_path / "large.npy"), pair.prediction)
    read = LabelMapReader.read

    def limited(self: LabelMapReader, path: str) -> NDArray[Any]:
        if path.endswith("large.npy"):
            raise MemoryError
        return read(self, path)

    monkeypatch.setattr(LabelMapReader, "read", limited)
    errors = [image.error for image in count_images([gone, large, pair], Task(1))]
    assert errors == [
        f"{gone.prediction} cannot be read: No such file or directory",
        f"{large.ground_truth} and {large.prediction} need more memory than there is",
        "",
    ]


def test_images_come_in_order_and_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    lock = threading.Lock()

    def counted(pair: Pair, task: Task, count: Any) -> ImageCounts:
        with lock:
            started.append(pair.name)
        return ImageCounts(pair, (1, 1), np.zeros((3, 1), np.int64))

    monkeypatch.setattr(label_map_folders, "_count_pair", counted)
    pairs = [Pair(str(i), "", "") for i in range(50)]
    images: Iterator[ImageCounts] = count_images(pairs, Task(1, threads=3))
    for done, image in enumerate(images):
        assert image.pair is pairs[done] and len(started) <= done + 8
    assert sorted(started, key=int) == [pair.name for pair in pairs]
    stopped = count_images(pairs, Task(1, threads=2))
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    assert len(started) < 60


def test_memory_does_not_grow_with_the_images(tmp_path: Path) -> None:
    maps = np.zeros((256, 256), np.uint8), np.ones((256, 256), np.uint8)
    pair, task = saved(tmp_path, "a", *maps), Task(3, threads=2)

    def peak(images: int) -> int:
        totals = Totals(["0", "1", "2"], task)
        tracemalloc.start()
        for image in count_images([pair] * images, task):
            totals.add(image)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(4)
    in_flight = 2 * task.threads * sum(array.nbytes for array in maps)
    assert peak(400) < 3 * in_flight < 400 * maps[0].nbytes / 10


def test_the_means_over_images_lose_no_digits() -> None:
    """Many small values beside large ones, against exact sums."""
    values = np.random.default_rng(1).random((3000, 2)) ** 40
    values[::7, 1] = math.nan
    mean = RunningMean((2,))
    for row in values:
        mean.add(row)
    exact = [math.fsum(column[~np.isnan(column)]) / (~np.isnan(column)).sum() for column in values.T]
    assert mean.value().tolist() == exact
    assert np.isnan(RunningMean((2,)).value()).all()


def test_digests_are_of_the_files_that_count(tmp_path: Path) -> None:
    import hashlib

    pairs = [saved(tmp_path, name, np.eye(2, dtype=int), np.eye(2, dtype=int)) for name in "ab"]
    bad = saved(tmp_path, "c", np.eye(2, dtype=int), np.eye(3, dtype=int))
    task = Task(2, hashed=True)
    totals = Totals(["0", "1"], task)
    for image in count_images([*pairs, bad], task):
        totals.add(image)
    content = [Path(pair.prediction).read_bytes() for pair in pairs]
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for data, name in zip(content, "ab"))
    assert totals.digests()[1] == (sum(map(len, content)), hashlib.sha256(lines.encode()).hexdigest())


def test_numbers_are_those_of_the_metrics(tmp_path: Path) -> None:
    """To the last bit, of all pixels and image by image."""
    rng = np.random.default_rng(3)
    maps = [(rng.integers(0, 6, (7, 9)), rng.integers(0, 4, (7, 9))) for _ in range(5)]
    task = Task(6, 5)
    totals = Totals([str(c) for c in range(6)], task)
    for image in count_images([saved(tmp_path, f"{i}", *pair) for i, pair in enumerate(maps)], task):
        totals.add(image)
    values = totals.result({}).values
    for name, kind, average in (
        ("miou", mIOU, "macro"),
        ("frequency_weighted_iou", mIOU, "weighted"),
        ("mean_precision", PixelPrecision, "macro"),
        ("pixel_accuracy", PixelAccuracy, "micro"),
        ("mean_accuracy", PixelAccuracy, "macro"),
        ("mean_f1", PixelF1, "macro"),
    ):
        for prefix, level in (("", "global"), ("image_", "samplewise")):
            metric = kind(6, average=average, aggregation_level=level, ignore_index=5)
            for truth, found in maps:
                metric.update(torch.from_numpy(found)[None], torch.from_numpy(truth)[None])
            result = metric.result()
            assert values[prefix + name] == result.values[kind.__name__], (name, level)
    assert {name: totals.result({}).counts[name] for name in result.counts} == result.counts
