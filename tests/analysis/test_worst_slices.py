"""The search for low slices: planted ones are found, and without an effect hardly anything is confirmed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.analysis.base import Analysis
from valor_gpu.analysis.worst_slices import worst_slices
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.segmentation import SurfaceDistance, mIOU
from valor_gpu.stats import adjust_benjamini_yekutieli

IMAGES = 400
WEATHER, CAMERA = ("fog", "rain", "sun"), ("back", "front")


class Means(Analysis):
    """The mean of one value of each image, and how often it was asked for."""

    metric, image_ids = "Means", None

    def __init__(self, values: Any) -> None:
        self.values, self.images, self.asked = np.asarray(values), len(values), 0

    def numbers_of(self, groups: Sequence[Any]) -> list[Mapping[str, float]]:
        self.asked += len(groups)
        return [{"mean": float(self.values[group].mean()) if len(group) else math.nan} for group in groups]


def columns(rng: np.random.Generator, images: int = IMAGES) -> dict[str, list[Any]]:
    return {
        "weather": rng.choice(WEATHER, images).tolist(),
        "camera": rng.choice(CAMERA, images).tolist(),
        "hour": rng.integers(0, 24, images).tolist(),
    }


BINS = {"hour": [6, 12, 18]}


def searched(values: Any, table: Any, **choices: Any) -> Any:
    return worst_slices(
        Means(values), table, ("weather", "camera", "hour"), bins=BINS, **{"permutations": 1000, **choices}
    )


def test_a_planted_slice_is_found_and_confirmed() -> None:
    rng = np.random.default_rng(0)
    table = columns(rng)
    night = np.array(table["hour"]) < 6
    found = searched(rng.normal(size=IMAGES) - 1.2 * night, table)
    rows = found.rows()
    assert (rows[0]["column"], rows[0]["value"], rows[0]["confirmed"]) == ("hour", "below 6", True)
    assert rows[0]["images"] == night.sum() and rows[0]["difference"] < -0.6
    assert found.choices["adjusted"] == "Benjamini-Yekutieli" and found.choices["number"] == "mean"
    assert all("below 6" in row["value"] for row in rows if row["confirmed"])
    assert bits(found["adjusted_p_value"]) == bits(adjust_benjamini_yekutieli(found["p_value"]))
    assert found["confirmed"] == [value <= 0.05 for value in found["adjusted_p_value"].tolist()]


def bits(values: Any) -> list[str]:
    return [repr(float(value)) for value in values]


def test_a_planted_crossing_is_found() -> None:
    rng = np.random.default_rng(1)
    table = columns(rng)
    both = (np.array(table["weather"]) == "rain") & (np.array(table["camera"]) == "back")
    found = searched(rng.normal(size=IMAGES) - 2.0 * both, table)
    assert (found["column"][0], found["value"][0], found["confirmed"][0]) == ("weather, camera", "rain, back", True)


def test_without_an_effect_hardly_anything_is_confirmed() -> None:
    """Of 60 searches at level 0.05 at most 3 are expected to confirm something, though many lowest p-values are low."""
    confirmed, low = 0, 0
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        found = searched(rng.normal(size=200), columns(rng, 200), seed=seed, least=10, permutations=600)
        confirmed, low = confirmed + any(found["confirmed"]), low + (found["p_value"][:1].min(initial=1) < 0.05)
    assert confirmed <= 3 < 10 <= low


def test_clusters_without_an_effect_are_not_confirmed() -> None:
    """Videos of 10 images differ, and each has one weather: images alone would confirm by chance."""
    with_clusters = without = 0
    for seed in range(40):
        rng = np.random.default_rng([8, seed])
        video = np.repeat(np.arange(60), 10)
        table = {"weather": rng.choice(WEATHER, 60)[video].tolist()}
        means = Means(rng.normal(size=60)[video] + 0.1 * rng.normal(size=600))
        choices: dict[str, Any] = {"permutations": 600, "seed": seed}
        with_clusters += any(worst_slices(means, table, ("weather",), clusters=video, **choices)["confirmed"])
        without += any(worst_slices(means, table, ("weather",), **choices)["confirmed"])
    assert with_clusters <= 3 < 15 <= without


def test_p_values_are_the_share_of_sets_that_are_as_low() -> None:
    """Three units inside of six on the half: all 20 sets are known, and the p-value of the lowest is a twentieth."""
    values = [0.0, 1.0] * 3 + [0.5, 2.0] * 3
    means = Means(values)
    table = {"low": [place % 2 == 0 for place in range(12)]}
    halves = set()
    for seed in range(40):
        found = worst_slices(means, table, ("low",), least=2, permutations=4000, seed=seed).rows()
        for row in found:
            inside = 12 - row["images"]
            halves.add((row["confirmation"], inside))
            assert row["difference"] == pytest.approx(row["confirmation"] - row["rest"])
            assert row["discovery"] < 1
    assert halves
    row = worst_slices(Means([0.0, 1.0] * 40), {"low": [True, False] * 40}, ("low",), permutations=600).rows()[0]
    assert (row["value"], row["p_value"]) == ("True", 1 / 601)


def test_p_values_of_no_effect_are_uniform() -> None:
    """One candidate whose membership says nothing: its p-values on the other half are those of a uniform number."""
    found = []
    for seed in range(300):
        rng = np.random.default_rng([9, seed])
        table = {"half": (np.arange(80) % 2).tolist()}
        made = worst_slices(
            Means(rng.normal(size=80)), table, ("half",), least=5, candidates=1, permutations=200, seed=seed
        )
        found += made["p_value"][:1].tolist()
    assert len(found) == 300
    for level in (0.1, 0.3, 0.5, 0.8):
        expected = level * len(found)
        assert abs((np.array(found) <= level).sum() - expected) < 4 * math.sqrt(expected * (1 - level)) + 3


def test_drawing_ends_early_where_a_slice_is_not_low() -> None:
    rng = np.random.default_rng(2)
    means = Means(rng.normal(size=IMAGES))
    table = columns(rng)
    worst_slices(means, table, ("weather",), permutations=100_000)
    assert means.asked < 20_000


def test_every_chosen_slice_has_enough_images_in_both_halves() -> None:
    rng = np.random.default_rng(3)
    table = columns(rng, 200)
    found = searched(rng.normal(size=200), table, least=30, candidates=20, permutations=1500)
    assert len(found) > 0 and min(found["images"]) >= 60
    names = {tuple(row) for row in zip(found["column"], found["value"])}
    assert len(names) == len(found)
    assert len(searched(rng.normal(size=200), table, least=30, candidates=2)) <= 2
    nothing = searched(rng.normal(size=200), table, least=99)
    assert len(nothing) == 0 and list(nothing.columns) == list(found.columns)


def test_equal_sets_of_images_are_one_candidate() -> None:
    rng = np.random.default_rng(4)
    night = (np.arange(200) % 3 == 0).tolist()
    table = {"night": night, "lamp": ["on" if each else "off" for each in night]}
    found = worst_slices(Means(rng.normal(size=200) - 2.0 * np.array(night)), table, ("night", "lamp"))
    assert list(zip(found["column"], found["value"])) == [("night", "True")]


def test_the_seed_decides_and_nothing_else() -> None:
    rng = np.random.default_rng(5)
    values, table = rng.normal(size=IMAGES), columns(rng)
    assert repr(searched(values, table).rows()) == repr(searched(values, table).rows())
    assert repr(searched(values, table).rows()) != repr(searched(values, table, seed=1).rows())


def test_high_numbers_are_bad_where_they_are_distances() -> None:
    rng = np.random.default_rng(6)
    table = columns(rng)
    night = np.array(table["hour"]) < 6
    found = searched(rng.normal(size=IMAGES) + 1.5 * night, table, higher_is_better=False)
    assert (found["value"][0], found["confirmed"][0]) == ("below 6", True) and found["difference"][0] > 0


def test_results_search_their_images() -> None:
    night = torch.arange(160) % 4 == 0
    target = torch.arange(160 * 64).reshape(160, 8, 8) % 2
    noise = torch.rand(target.shape, generator=torch.Generator().manual_seed(0))
    preds = torch.where(noise < torch.where(night, 0.3, 0.15)[:, None, None], 1 - target, target)
    table = {"night": night.tolist(), "odd": (torch.arange(160) % 2).tolist()}
    for metric, choices in ((mIOU(2, keep_images=True), {}), (SurfaceDistance(2), {"higher_is_better": False})):
        metric.update(preds, target)
        found = metric.result().worst_slices(table, "night", "odd", least=10, permutations=600, **choices)
        assert ("night", "True", True) in zip(found["column"], found["value"], found["confirmed"])
    found = mIOU(2, keep_images=True)
    found.update(preds, target)
    one = found.result().worst_slices(table, "night", number="per_class/1", permutations=600)
    assert one.choices["number"] == "per_class/1"


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"least": 1}, "least must be at least 2 but got 1"),
        ({"candidates": 0}, "candidates must be at least 1 but got 0"),
        ({"level": 0}, "level must be above 0 and below 1 but got 0"),
        ({"level": 1.5}, r"level must be in \[0, 1\] but got 1.5"),
        ({"permutations": 0}, "permutations must be at least 1"),
        ({"permutations": 584}, "permutations must be at least 585 to confirm one of 10 candidates at level 0.05 but"),
        ({"permutations": 18, "candidates": 1}, "permutations must be at least 19 to confirm one of 1 candidates"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"number": "median"}, "numbers must be among 'mean' and those of classes but got 'median'"),
        ({"higher_is_better": 1}, "higher_is_better must be bool"),
        ({"clusters": [1, 2]}, "clusters must be one for each of 400 images but are 2"),
    ],
)
def test_choices_out_of_range_are_errors(choices: dict[str, Any], said: str) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises((InputError, InputTypeError), match=said):
        searched(rng.normal(size=IMAGES), columns(rng), **choices)


def by_hand(values: list[float]) -> list[float]:
    """Adjusted values by the definition: the least of m c(m) p / rank over this and all larger values."""
    kept = [value for value in values if not math.isnan(value)]
    scale = len(kept) * sum(1 / rank for rank in range(1, len(kept) + 1))
    ranks = {place: rank for rank, place in enumerate(sorted(range(len(kept)), key=kept.__getitem__), 1)}
    found = iter([
        min(1.0, *(scale * kept[other] / ranks[other] for other in ranks if ranks[other] >= ranks[place]))
        for place in range(len(kept))
    ])  # fmt: skip
    return [math.nan if math.isnan(value) else next(found) for value in values]


def test_benjamini_yekutieli_by_its_definition() -> None:
    # 5 x (1 + 1/2 + 1/3 + 1/4 + 1/5) = 11.41666..., times 0.001, 0.008 / 2 and 0.042 / 5, which is less than 0.039 / 3
    expected = [0.011416666666666667, 0.04566666666666667, 0.0959, 0.0959, 0.0959]
    assert adjust_benjamini_yekutieli([0.001, 0.008, 0.039, 0.041, 0.042]) == pytest.approx(expected, rel=1e-12)
    rng = np.random.default_rng(0)
    for size in itertools.chain(range(6), (40,)):
        values = rng.random(size).tolist() + [math.nan] * (size % 2) + [0.0, 1.0] * (size % 3)
        assert adjust_benjamini_yekutieli(values) == pytest.approx(by_hand(values), rel=1e-12, nan_ok=True)
    with pytest.raises(InputError, match=r"p_values must lie in \[0, 1\] but p_values\[1\] is 2"):
        adjust_benjamini_yekutieli([0.5, 2.0])


class Rare(Means):
    """A number of a class that the first two images alone have."""

    def numbers_of(self, groups: Sequence[Any]) -> list[Mapping[str, float]]:
        held = (np.asarray(group)[np.asarray(group) < 2] for group in groups)
        return [{"of/cat": float(self.values[of].mean())} if len(of) else {} for of in held]


def test_a_class_that_the_other_half_lacks_has_no_p_value() -> None:
    table = {"camera": ["front", "back"] * 50}
    choices = {"number": "of/cat", "least": 5, "candidates": 1, "permutations": 40}
    found = [worst_slices(Rare(np.arange(100)), table, ("camera",), seed=seed, **choices) for seed in range(8)]
    rows = [row for each in found for row in each.rows()]
    assert rows and all(math.isnan(row["p_value"]) and row["confirmed"] is False for row in rows)
