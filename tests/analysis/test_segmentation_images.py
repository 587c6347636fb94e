"""The table of images of results of segmentation: each row is a run on that image alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.segmentation.test_intervals import ALL, IMAGES, images
from tests.segmentation.test_label_map_folders import saved
from tests.test_cli_image_intervals import evaluation
from valor_gpu import segmentation
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.ops.panoptic.op import count_panoptic
from valor_gpu.segmentation.label_map_folders import NUMBERS, Task, Totals, count_images


def made(name: str, options: dict[str, Any], *batches: tuple[torch.Tensor, torch.Tensor]) -> Any:
    metric = getattr(segmentation, name)(**options)
    for preds, target in batches:
        metric.update(preds, target)
    return metric


@pytest.mark.parametrize(("name", "options"), [case for case in ALL if case[0] != "PixelConfusionMatrix"])
def test_rows_are_runs_on_each_image(name: str, options: dict[str, Any]) -> None:
    preds, target = images(name)
    table = made(name, options, (preds[:7], target[:7]), (preds[7:], target[7:])).result().images()
    assert table["image_id"].tolist() == list(range(IMAGES)) and len(table) == IMAGES
    own = [column for column in table if column not in ("image_id", "mean_iou") and "positives" not in column]
    own = [column for column in own if "negatives" not in column]
    singles = []
    for image in range(IMAGES):
        alone = dict(
            numbers_of(made(name, options, (preds[image : image + 1], target[image : image + 1])).result().values)
        )
        for column in own:
            assert np.array_equal(table[column][image], alone[column], equal_nan=True), (image, column)
        singles.append(alone)
    assert own and not any(name.startswith("per_image") for name in own)
    by_class = name == "IOU" or options.get("average", "macro") == "none"
    assert [column for column in own if ("/" in column) != by_class] == []
    assert len({str([single[column] for column in own]) for single in singles}) > 3


@pytest.mark.parametrize("name", ["PanopticQuality", "ModifiedPanopticQuality"])
def test_segments_of_panoptic_images(name: str) -> None:
    options = next(options for each, options in ALL if each == name)
    preds, target = images(name)
    metric = made(name, options, (preds, target))
    table = metric.result().images()
    assert list(table)[:6] == ["image_id", "true_positives", "false_positives", "false_negatives", "mean_iou", "pq"]
    values = metric.result().values
    for column, counts in (("true_positives", "tp"), ("false_positives", "fp"), ("false_negatives", "fn")):
        assert int(table[column].sum()) == sum(values[f"{counts}_per_class"].values())
    tables, _ = count_panoptic(
        preds, target, metric.categories, len(metric.things), modified=metric.modified, allow_unknown=True
    )
    counts = tables.numpy().astype(object)
    for image in range(IMAGES):
        matches = counts[image, 0].sum()
        total = sum(int(high) * 2**64 + int(middle) * 2**32 + int(low) for high, middle, low in counts[image, 5:].T)
        expected = total / 2**96 / matches if matches else np.nan
        assert table["mean_iou"][image] == pytest.approx(expected, rel=1e-14, nan_ok=True)


def test_files_of_coco_panoptic() -> None:
    found = evaluation(2)
    table = found.result().images()
    rows = [(*row[:2], *map(float, row[2:])) for row in found.rows()]
    columns = ("image_id", "file_name", "pq", "sq", "rq", "true_positives", "false_positives", "false_negatives")
    ours = [(row["image_id"], row["file_name"], *(float(row[name]) for name in columns[2:])) for row in table.rows()]
    expected = [(image, *row[1:8]) for image, row in zip(found.ground_truth.annotations, rows)]
    assert ours == expected and len(ours) > 2


def test_label_maps(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    maps = rng.integers(0, 3, (5, 2, 6, 8))
    names, task = ["sky", "car", "road"], Task(3)
    pairs = [saved(tmp_path, f"img{i}", *sides) for i, sides in enumerate(maps)]
    totals = Totals(names, task, keep_images=True)
    alone = [totals.add(image) for image in count_images(pairs, task)]
    table = totals.result({}).images()
    assert table["image_id"].tolist() == [pair.name for pair in pairs]
    assert set(table) == {"image_id", *NUMBERS}
    for number in NUMBERS:
        assert table[number].tolist() == [numbers[number] for numbers in alone]
    with pytest.raises(InputError, match=r"make the metric with keep_images=True"):
        Totals(names, task).result({}).images()


def test_choices_and_errors() -> None:
    preds, target = images("mIOU")
    result = made("mIOU", {"num_classes": 4, "keep_images": True}, (preds, target)).result()
    assert result.images().choices["metric"] == "mIOU" and "version" not in result.images().choices
    with pytest.raises(
        InputError, match=r"iou and score must be left out for results of mIOU.* iou=0.75 and score=None"
    ):
        result.images(0.75)
    with pytest.raises(InputError, match=r"make the metric with keep_images=True"):
        made("mIOU", {"num_classes": 4}, (preds, target)).result().images()
    matrix = made("PixelConfusionMatrix", {"num_classes": 4, "keep_images": True}, (preds, target)).result()
    with pytest.raises(InputError, match=r"images\(\) is not defined for results of PixelConfusionMatrix"):
        matrix.images()
    empty = made("mIOU", {"num_classes": 4, "keep_images": True}).result().images()
    assert len(empty) == 0
