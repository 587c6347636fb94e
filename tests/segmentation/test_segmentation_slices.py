"""Slices of segmentation results: integer counts, so that each has the bits of a metric that saw its images alone."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.panoptic_files import GROUND_TRUTH, PREDICTIONS
from tests.segmentation.test_intervals import CLASSES, IMAGES, SEGMENTS, images, updated
from valor_gpu import segmentation
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.inputs.label_map_pairs import Pair
from valor_gpu.inputs.panoptic_files import read_panoptic_json
from valor_gpu.segmentation.coco_panoptic import PanopticEvaluation, evaluate_files
from valor_gpu.segmentation.label_map_folders import ImageCounts, Task, Totals
from valor_gpu.stats import Bootstrap

CASES = (
    ("mIOU", dict(num_classes=CLASSES, keep_images=True), "mIOU"),
    ("MeanIoU", dict(num_classes=CLASSES, input_format="index"), "MeanIoU"),
    ("DiceScore", dict(num_classes=CLASSES, input_format="index"), "DiceScore"),
    ("IOU", dict(num_classes=CLASSES, keep_images=True), "per_class/0"),
    ("PixelConfusionMatrix", dict(num_classes=CLASSES, keep_images=True), "confusion_matrix/0,0"),
    ("BoundaryF1", dict(num_classes=CLASSES), "BoundaryF1"),
    (*SEGMENTS[0], "pq"),
)
WEATHER = ["sun", "rain", "fog"]


def weather(number: int = IMAGES) -> list[str]:
    return np.random.default_rng(1).choice(WEATHER, number).tolist()  # type: ignore[no-any-return]


def bits(values: Any) -> list[str]:
    return [repr(float(value)) for value in values]


@pytest.mark.parametrize(("name", "choices", "first"), CASES, ids=[case[0] for case in CASES])
def test_slices_have_the_bits_of_fresh_metrics(name: str, choices: dict[str, Any], first: str) -> None:
    make, batch, kinds = partial(getattr(segmentation, name), **choices), images(name), weather()
    found = updated(make, batch, [range(9), range(9, IMAGES)]).result().by({"weather": kinds}, "weather", intervals=10)
    assert found["value"] == sorted(WEATHER) and found.numbers[0] == first and "ground_truths" not in found
    for row in found.rows():
        places = [place for place, kind in enumerate(kinds) if kind == row["value"]]
        fresh = updated(make, batch, [places]).result(intervals=10)
        expected = dict(numbers_of(fresh.values))
        assert row["images"] == len(places)
        assert bits(row[number] for number in found.numbers) == bits(expected[number] for number in found.numbers)
        for number in found.numbers:
            ends = fresh.intervals[number]
            assert bits((row[f"{number}_low"], row[f"{number}_high"])) == bits((ends.low, ends.high))


def test_images_without_ids_are_counted_as_they_came() -> None:
    name, choices, _ = CASES[0]
    result = updated(partial(getattr(segmentation, name), **choices), images(name), [range(IMAGES)]).result()
    kinds, order = weather(), np.random.default_rng(2).permutation(IMAGES)
    expected = repr(result.by({"weather": kinds}, "weather").rows())
    shuffled = {"image_id": order.tolist(), "weather": [kinds[place] for place in order]}
    assert repr(result.by(shuffled, "weather").rows()) == expected
    clusters = [place % 5 for place in range(IMAGES)]
    assert len(result.by(shuffled, "weather", intervals=Bootstrap(10, clusters=clusters))) == 3
    with pytest.raises(InputError, match=r"of none, the first is image_id 24: image_id must count images from 0 as"):
        result.by({"image_id": list(range(1, IMAGES + 1)), "weather": kinds}, "weather")
    with pytest.raises(InputError, match=r"table must have a row for each of 24 images, in the order .* but has 23"):
        result.by({"weather": kinds[1:]}, "weather")
    with pytest.raises(InputError, match="clusters must be a sequence with the cluster of every image, since images"):
        result.by(shuffled, "weather", intervals=Bootstrap(10, clusters=dict.fromkeys(range(IMAGES), 1)))
    with pytest.raises(InputError, match="since results of mIOU do not know 'crowding' of images"):
        result.by("crowding")
    with pytest.raises(InputError, match=r"by\('size'\) is not defined for results of mIOU"):
        result.by("size")


def test_a_slice_without_pixels_of_a_class_says_why() -> None:
    name, choices, _ = CASES[3]
    batch = images(name)
    batch[0][:3], batch[1][:3] = 0, 0
    result = updated(partial(getattr(segmentation, name), **choices), batch, [range(IMAGES)]).result()
    found = result.by({"first": ["yes"] * 3 + ["no"] * (IMAGES - 3)}, "first", numbers=["per_class"])
    assert found["per_class/0_reason" if "per_class/0_reason" in found else "per_class/1_reason"][1] == (
        "no pixel of the images counts for it"
    )
    assert math.isnan(found["per_class/1"][1]) and found["per_class/1_reason"][0] is None


def test_label_maps_are_sliced_by_the_names_of_their_files() -> None:
    def counted(numbers: list[int]) -> Any:
        totals = Totals(["road", "sky"], Task(2), True)
        for number in numbers:
            true, predicted = np.random.default_rng(number).integers(0, 9, (2, 2))
            counts = np.array([np.minimum(true, predicted) // 2, predicted, true])
            totals.add(ImageCounts(Pair(f"{number:02}", "", ""), (9, 9), counts))
        return totals.result({})

    kinds = weather()
    table = {"image": [f"{number:02}" for number in range(IMAGES)], "weather": kinds}
    found = counted(list(range(IMAGES))).by(table, "weather", numbers=["miou", "image_miou", "iou_per_class"])
    for row in found.rows():
        numbers = [place for place, kind in enumerate(kinds) if kind == row["value"]]
        expected = dict(numbers_of(counted(numbers).values))
        assert row["images"] == len(numbers)
        assert bits(row[number] for number in found.numbers) == bits(expected[number] for number in found.numbers)


@pytest.fixture(scope="module")
def panoptic() -> PanopticEvaluation:
    sides = read_panoptic_json(str(GROUND_TRUTH), True), read_panoptic_json(str(PREDICTIONS), False)
    folders = str(GROUND_TRUTH).removesuffix(".json"), str(PREDICTIONS).removesuffix(".json")
    return evaluate_files(*sides, folders, 1, lambda done: None)


def test_panoptic_files_are_sliced_by_id_and_by_file(panoptic: PanopticEvaluation, tmp_path: Path) -> None:
    annotations = list(panoptic.ground_truth.annotations.values())
    kinds = [WEATHER[place % 2] for place in range(len(annotations))]
    path = tmp_path / "images.csv"
    lines = [f"{each.image_id},{kind}" for each, kind in zip(annotations, kinds)]
    path.write_text("image_id,weather\n" + "\n".join(lines) + "\n")
    found = panoptic.result().by(path, "weather")
    tables = panoptic.tables()
    assert sum(found["images"]) == len(annotations) and found.numbers[0] == "pq"
    by_file = {"file_name": [each.file_name for each in annotations], "weather": kinds}
    assert repr(panoptic.result().by(by_file, "weather").rows()) == repr(found.rows())
    for row in found.rows():
        kept = tables[[kind == row["value"] for kind in kinds]].sum(0)
        part = PanopticEvaluation(
            panoptic.ground_truth, tuple(i for i, kind in zip(panoptic.images, kinds) if kind == row["value"]), 0
        )
        assert (part.tables().sum(0) == kept).all()
        expected = dict(numbers_of(part.result().values))
        assert bits(row[number] for number in found.numbers) == bits(expected[number] for number in found.numbers)
