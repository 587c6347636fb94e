"""Results of segmentation about groups of their images: the numbers of a metric that saw these images alone."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.segmentation.test_intervals import ALL, CLASSES, IMAGES, SEGMENTS, ids, images, updated
from valor_gpu import segmentation
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.segmentation.panoptic_lrp import PanopticAnalysis

CASES = (
    *ALL,
    ("HausdorffDistance", dict(num_classes=CLASSES, input_format="index")),
    ("mIOU", dict(num_classes=CLASSES, average="none", keep_images=True)),
    ("PixelF1", dict(num_classes=CLASSES, aggregation_level="samplewise", average="micro")),
)
GROUPS = [np.array(group, np.int64) for group in ([], [0], [3], [1, 2, 5], range(0, IMAGES, 2), range(IMAGES))]


def analysis_of(result: Any) -> Any:
    found = result._asked("by", None)
    return found.about_images("by") if isinstance(found, PanopticAnalysis) else found


@pytest.mark.parametrize(("name", "choices"), CASES, ids=ids)
def test_groups_have_the_bits_of_fresh_metrics(name: str, choices: dict[str, Any]) -> None:
    make, batch = partial(getattr(segmentation, name), **choices), images(name)
    result = updated(make, batch, [range(9), range(9, IMAGES)]).result()
    analysis = analysis_of(result)
    assert analysis.images == IMAGES and analysis.image_ids is None and analysis.metric == name
    for group, numbers in zip(GROUPS, analysis.numbers_of(GROUPS)):
        fresh = updated(make, batch, [group.tolist()] if len(group) else []).result()
        expected = dict(numbers_of(fresh.values))
        assert numbers and set(numbers) <= set(expected)
        assert {number: repr(value) for number, value in numbers.items()} == {
            number: repr(expected[number]) for number in numbers
        }
        made = analysis.result_of(group)
        assert {number: repr(value) for number, value in numbers_of(made.values)} == {
            number: repr(value) for number, value in numbers.items()
        }
        missing = {number for number, value in numbers.items() if np.isnan(value)}
        assert {number for number in numbers if made.reason(number) or made.reason(number.partition("/")[0])} >= missing
        assert made.counts["images"] == len(group)


@pytest.mark.parametrize(("name", "choices"), CASES, ids=ids)
def test_groups_have_the_intervals_of_fresh_metrics(name: str, choices: dict[str, Any]) -> None:
    make, batch = partial(getattr(segmentation, name), **choices), images(name)
    analysis = analysis_of(updated(make, batch, [range(IMAGES)]).result())
    group = np.arange(1, IMAGES, 2)
    made = analysis.result_of(group).with_intervals(20)
    fresh = updated(make, batch, [group.tolist()]).result(intervals=20)
    expected = {number: fresh.intervals[number] for number in fresh.intervals if number in made.intervals}
    assert expected and repr(dict(made.intervals)) == repr(expected)


def test_many_groups_are_taken_in_portions() -> None:
    make, batch = partial(segmentation.mIOU, num_classes=CLASSES, keep_images=True), images("mIOU")
    analysis = analysis_of(updated(make, batch, [range(IMAGES)]).result())
    groups = [np.array([place % IMAGES, IMAGES]) - [0, 1] for place in range(150)]
    groups = [np.unique(group) for group in groups]
    found = analysis.numbers_of(groups)
    assert len(found) == 150 and repr(found[0]) == repr(found[24]) == repr(analysis.numbers_of(groups[:1])[0])


def test_a_result_answers_of_what_it_came_from() -> None:
    name, choices = SEGMENTS[0]
    make, batch = partial(getattr(segmentation, name), **choices), images(name)
    metric = updated(make, batch, [range(IMAGES)])
    result, expected = metric.result(), analysis_of(metric.result()).numbers_of(GROUPS)
    metric.update(*batch)
    metric.reset()
    assert repr(analysis_of(result).numbers_of(GROUPS)) == repr(expected)
    with pytest.raises(InputError, match=r"by\(\) needs the data that the result came from"):
        analysis_of(pickle.loads(pickle.dumps(result)))


@pytest.mark.parametrize("name", ["mIOU", "DiceScore", "PixelConfusionMatrix", "PanopticQuality"])
def test_sums_over_images_are_an_error(name: str) -> None:
    choices = dict(SEGMENTS[0][1], keep_images=False) if "Panoptic" in name else {"num_classes": CLASSES}
    more = dict(aggregation_level="global", input_format="index") if name == "DiceScore" else {}
    metric = updated(partial(getattr(segmentation, name), **choices, **more), images(name), [range(IMAGES)])
    result = metric.result()
    with pytest.raises(InputError, match=r"^by\(\) needs the counts of every image: .*keep_images=True"):
        result.by({"weather": ["sun"] * IMAGES}, "weather")
    with pytest.raises(InputError, match=r"^worst_slices\(\) needs the counts of every image: .*keep_images=True"):
        result.worst_slices({"weather": ["sun"] * IMAGES}, "weather")
    with pytest.raises(InputError, match=r"^images\(\) needs the counts of every image: .*keep_images=True"):
        result.images()
    for question in (result.errors, result.operating_points, result.matches):
        with pytest.raises(InputError, match=rf"^{question.__name__}\(\) is not defined for results of {name}$"):
            question()
