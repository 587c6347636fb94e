"""compare: what it adds to paired differences: families, power, several models, slices, and what it refuses."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.stats.paired_fakes import Means
from valor_gpu.comparison import ComparisonResult
from valor_gpu.comparison.comparisons import Comparisons
from valor_gpu.comparison.families import path_of
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.signature import Signature
from valor_gpu.result import Result
from valor_gpu.segmentation import mIOU
from valor_gpu.stats import adjust_benjamini_hochberg, adjust_benjamini_yekutieli, adjust_holm, adjust_max_t, compare
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.paired_states import paired_numbers
from valor_gpu.stats.units import pair_units

CLASSES = ("cat", "dog/puppy", "cow", "hen")


def result(columns: dict[str, Any], **choices: Any) -> Result:
    state, values = Means(columns, **choices), {}
    for name, value in state.values().items():
        *path, last = path_of(name)
        (values.setdefault(path[0], {}) if path else values)[last] = value
    return Result(values, Signature({"metric": "Means"}), {"rows": state.units}, state=state)


def model(shift: float, units: int = 40, noise: float = 0.5, seed: int | None = None) -> Result:
    """A number, and one for each class; models of other shifts have other noise on the same rows."""
    shared = np.random.default_rng(0).normal(size=(5, units))
    own = np.random.default_rng(int(shift * 1000) if seed is None else seed).normal(0, noise, (5, units))
    rows = shared + own + np.array([1, 0, 1, 2, 3])[:, None] * shift
    return result({"m": rows[0], **{f"m_per_class/{name}": row for name, row in zip(CLASSES, rows[1:])}})


def numbers(first: Result, second: Result, replicates: int = 200) -> Any:
    states = vars(first)["_state"], vars(second)["_state"]
    pairing = pair_units(*(state.identities() for state in states))
    return paired_numbers((states[0].values(), states[1].values()), states, pairing, Bootstrap(replicates))


def leaves(found: ComparisonResult, column: str) -> dict[str, float]:
    rows = found.table().rows()
    return {row["name"] if row["class"] is None else f"{row['name']}/{row['class']}": row[column] for row in rows}


def same(first: Any, second: Any) -> bool:
    return json.dumps(first) == json.dumps(second)


# ------------------------------------------------------------------------------------------------------------- families


def test_p_values_of_classes_are_adjusted_by_maxima_of_the_same_replicates() -> None:
    first, second = model(0.0), model(0.1)
    found, expected = compare(first, second, replicates=200), numbers(first, second)
    names = [f"m_per_class/{name}" for name in CLASSES]
    made = adjust_max_t([expected[n].statistic for n in names], np.stack([expected[n].deviations for n in names]))
    adjusted = leaves(found, "p_adjusted")
    assert [adjusted[n] for n in names] == [max(p, expected[n].p_value) for p, n in zip(made, names)]
    assert adjusted["m"] == leaves(found, "p")["m"] == expected["m"].p_value


@pytest.mark.parametrize(
    ("name", "adjust"),
    [
        ("holm", adjust_holm),
        ("benjamini_hochberg", adjust_benjamini_hochberg),
        ("benjamini_yekutieli", adjust_benjamini_yekutieli),
    ],
)
def test_other_adjustments_take_the_p_values_of_the_classes(name: str, adjust: Any) -> None:
    found = compare(model(0.0), model(0.1), replicates=50, permutations=0, adjust=name)
    p_values, adjusted = leaves(found, "p"), leaves(found, "p_adjusted")
    classes = [each for each in p_values if "/" in each]
    assert [adjusted[each] for each in classes] == adjust([p_values[each] for each in classes])
    assert found.signature["adjust"] == name


def test_classes_without_a_test_are_in_no_family() -> None:
    choices = {"supports": {"c/a": 3}}
    rows = np.random.default_rng(0).normal(size=(4, 30))
    first = result({"c/a": rows[0], "c/b": rows[1]}, **choices)
    found = compare(first, result({"c/a": rows[2], "c/b": rows[3]}, **choices), replicates=50)
    adjusted = leaves(found, "p_adjusted")
    assert math.isnan(adjusted["c/a"]) and adjusted["c/b"] >= leaves(found, "p")["c/b"]
    assert found.reason("p/c/a") == found.reason("p_adjusted/c/a") == "too few rows: 3 hold a truth, it takes 20"


def test_equal_models_have_p_values_of_1_in_every_family() -> None:
    first = model(0.0)
    found = compare(first, first, replicates=50)
    for column in ("p", "p_adjusted", "p_permutation"):
        assert set(leaves(found, column).values()) == {1.0}
    assert set(leaves(found, "low").values()) == set(leaves(found, "high").values()) == {0.0}
    assert found.signature["notes"][0].startswith("no replicate tells the models apart: ")
    assert found.gate_numbers()["delta_m_low"] == 0  # which decides a gate on a change that changes nothing


# ---------------------------------------------------------------------------------------------------------------- power


def test_detectable_differences_follow_from_the_standard_error() -> None:
    first, second = model(0.0), model(0.1)
    found = compare(first, second, replicates=200, permutations=0, smallest_difference=0.05, observed_power=True)
    expected = numbers(first, second)["m"]
    row = found.table().rows()[0]
    assert row["detectable"] == pytest.approx((1.959964 + 0.841621) * expected.spread, rel=1e-6)
    assert row["units_needed"] == math.ceil(40 * (row["detectable"] / 0.05) ** 2)
    assert 0 < row["observed_power"] < 1
    assert "observed power follows from the p-value alone" in found.signature["notes"][-1]
    plain = compare(first, second, replicates=200, permutations=0).table()
    assert "units_needed" not in plain.columns and "observed_power" not in plain.columns


@pytest.mark.parametrize("value", [0.0, -0.1])
def test_a_difference_that_would_matter_is_above_0(value: float) -> None:
    with pytest.raises(InputError, match=f"smallest_difference must be above 0.*but is {value}"):
        compare(model(0.0), model(0.1), smallest_difference=value)


# ------------------------------------------------------------------------------------------------------- several models


def test_pairs_of_three_models_are_those_of_two() -> None:
    models = {"a": model(0.0), "b": model(0.1), "c": model(0.2)}
    found = compare(models, replicates=100)
    assert isinstance(found, Comparisons) and list(found) == ["b vs a", "c vs a", "c vs b"]
    for pair, each in found.items():
        second, first = pair.split(" vs ")
        alone = compare({first: models[first], second: models[second]}, replicates=100)
        assert isinstance(alone, ComparisonResult) and each.signature["names"] == [first, second]
        for column in ("first", "second", "difference", "low", "high", "p", "p_permutation", "detectable"):
            assert same(leaves(each, column), leaves(alone, column)), column
        assert all(p >= q - 1e-12 for p, q in zip(leaves(each, "p_adjusted").values(), leaves(each, "p").values()))


def test_p_values_are_adjusted_over_pairs() -> None:
    models = [model(0.0), model(0.1), model(0.2)]
    found = compare(*models, replicates=100, permutations=0)
    assert list(found) == ["second vs first", "third vs first", "third vs second"]
    pairs = [numbers(models[i], models[j], 100)["m"] for i, j in ((0, 1), (0, 2), (1, 2))]
    made = adjust_max_t([each.statistic for each in pairs], np.stack([each.deviations for each in pairs]))
    expected = [max(p, each.p_value) for p, each in zip(made, pairs)]
    assert [each.values["p_adjusted"]["m"] for each in found.values()] == expected
    gates = found.gate_numbers()
    assert [gates[f"{pair}/p_m"] for pair in found] == expected
    assert gates["third vs first/delta_m"] == found["third vs first"].values["difference"]["m"]


@pytest.mark.parametrize("by_name", [False, True])
def test_a_baseline_is_compared_with_every_other_model(by_name: bool) -> None:
    models = {"a": model(0.0), "b": model(0.1), "c": model(0.2)}
    found = compare(models, baseline="b" if by_name else models["b"], replicates=50, permutations=0)
    assert list(found) == ["a vs b", "c vs b"]
    assert list(compare(*models.values(), baseline=models["c"], replicates=50)) == ["first vs third", "second vs third"]
    turned = compare(models["a"], models["b"], baseline=models["b"], replicates=50)
    assert turned.values["first"]["m"] == models["b"].values["m"]


def test_the_table_of_several_models_names_the_pairs() -> None:
    table = compare(model(0.0), model(0.1), model(0.2), replicates=50, permutations=0).table()
    assert list(table.columns)[:4] == ["comparison", "name", "class", "first"] and len(table) == 3 * 5
    assert [row["comparison"] for row in table.rows() if row["name"] == "m"][2] == "third vs second"


def test_several_models_go_into_files_and_frames(tmp_path: Path) -> None:
    found = compare(model(0.0), model(0.1), model(0.2), replicates=50, permutations=0)
    assert isinstance(found, Comparisons)
    document = json.loads(found.to_json(), parse_constant=pytest.fail)
    assert document == json.loads(json.dumps(found.to_dict())) and list(document) == list(found)
    found.save(tmp_path / "pairs.json")
    assert json.loads((tmp_path / "pairs.json").read_text()) == document
    assert found.scalars("val/")["val/third vs first/delta_m"] == found["third vs first"].values["difference"]["m"]
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = found.to_pandas()
    assert frame["comparison"].tolist() == [row["comparison"] for row in found.table().rows()]
    assert frame["p"].to_numpy()[0] == found["second vs first"].values["p"]["m"]


# --------------------------------------------------------------------------------------------------------------- slices


def segmented(wrong: int, seed: int = 0) -> mIOU:
    rng = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 2, (60, 1, 12), generator=rng)
    preds = target.clone()
    for image in range(60):
        width = wrong * (image % 3) // 2
        preds[image, :, :width] = 1 - preds[image, :, :width]
    metric = mIOU(2, keep_images=True)
    metric.update(preds, target)
    return metric


TABLE = {"weather": ["sun", "rain", "snow"] * 20, "hour": list(range(60))}


def test_a_slice_is_compared_as_its_images_alone() -> None:
    first, second = segmented(6), segmented(4)
    found = compare(first, second, table=TABLE, by="weather", replicates=80)
    rows = {row["slice"]: row for row in found.table().rows() if row["slice"]}
    assert list(rows) == ["weather: rain", "weather: snow", "weather: sun"]
    for place, weather in enumerate(("sun", "rain", "snow")):
        images = np.arange(place, 60, 3)
        parts = (metric.result()._asked("by", None).result_of(images) for metric in (first, second))
        alone = compare(*parts, replicates=80).table().rows()[0]
        for column in ("first", "second", "difference", "low", "high", "p", "p_permutation", "detectable", "reason"):
            assert same(rows[f"weather: {weather}"][column], alone[column]), column
    assert math.isnan(rows["weather: sun"]["detectable"]) and rows["weather: sun"]["p"] == 1
    assert rows["weather: snow"]["p_adjusted"] >= rows["weather: snow"]["p"]
    gates = found.gate_numbers()
    assert gates["delta_slices/weather: snow/mIOU"] == rows["weather: snow"]["difference"]
    assert gates["p_slices/weather: snow/mIOU"] == rows["weather: snow"]["p_adjusted"]
    whole = compare(first, second, replicates=80)
    assert same(leaves(whole, "p"), {"mIOU": found.values["p"]["mIOU"], **_classes(found, "p")})


def _classes(found: ComparisonResult, column: str) -> dict[str, float]:
    rows = found.table().rows()
    return {f"{row['name']}/{row['class']}": row[column] for row in rows if row["class"] is not None}


def test_slices_by_bins_crossings_and_clusters() -> None:
    first, second = segmented(6), segmented(4)
    found = compare(
        first, second, table=TABLE, by={"hour": [30], ("weather", "hour"): None}, replicates=20, permutations=0,
        clusters=[image // 2 for image in range(60)], smallest_difference=0.1,
    )  # fmt: skip
    rows = [row for row in found.table().rows() if row["slice"]]
    assert [row["slice"] for row in rows][:3] == [
        "hour: below 30",
        "hour: 30 or above",
        "weather, hour: rain, below 30",
    ]
    assert found.counts["clusters"] == 30 and found.counts["images"] == 60
    assert rows[0]["units_needed"] == math.ceil(15 * (rows[0]["detectable"] / 0.1) ** 2)


def test_slices_of_three_models_are_adjusted_over_pairs_and_slices() -> None:
    found = compare(
        segmented(8),
        segmented(6),
        segmented(4),
        table=TABLE,
        by="weather",
        replicates=40,
        permutations=0,
        adjust="holm",
    )
    rows = [row for row in found.table().rows() if row["slice"]]
    assert [row["p_adjusted"] for row in rows] == adjust_holm([row["p"] for row in rows]) and len(rows) == 9


def test_a_table_needs_columns() -> None:
    with pytest.raises(InputError, match="by must name columns of the table but is None"):
        compare(segmented(6), segmented(4), table=TABLE)


# ------------------------------------------------------------------------------------------------------ result, errors


def test_a_comparison_is_a_result_that_can_be_saved_and_logged() -> None:
    first, second = model(0.0), model(0.1)
    found = compare(first, second, replicates=50, clusters={row: row // 2 for row in range(40)})
    assert found.counts == {"clusters": 20, "rows": 40}
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["values"]["difference"]["m_per_class"]["dog/puppy"] == pytest.approx(0.1, abs=0.3)
    assert document["interval_choices"]["unit"] == "clusters" and document["interval_choices"]["units"] == 20
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, ComparisonResult) and same(again.table().rows(), found.table().rows())
    scalars = found.scalars("val/")
    assert scalars["val/delta_m"] == scalars["val/m"] - first.values["m"]
    assert scalars["val/p_m_per_class/cow"] == leaves(found, "p_adjusted")["m_per_class/cow"]
    assert found.signature["tests"]["m_per_class"] == "bootstrap: both models have the same expected number"


def test_provenance_is_that_of_both_models() -> None:
    models = {"old": segmented(4), "new": segmented(3)}
    found = compare(models, replicates=20, permutations=0)
    assert isinstance(found, ComparisonResult)
    own = {part: metric.result().provenance for part, metric in zip(("first", "second"), models.values())}
    assert found.provenance == own and own["first"]["device"] == "cpu"
    assert found.to_dict()["provenance"] == pickle.loads(pickle.dumps(found)).to_dict()["provenance"] == own
    several = compare({**models, "best": segmented(1)}, replicates=20, permutations=0)
    assert several.to_dict()["new vs old"]["provenance"] == own


def test_the_seed_and_the_models_alone_decide_the_bits() -> None:
    one, other = (compare(model(0.0), model(0.1), replicates=60, seed=7) for _ in range(2))
    assert same(one.to_dict(), other.to_dict())
    assert not same(one.to_dict()["values"], compare(model(0.0), model(0.1), replicates=60).to_dict()["values"])


def test_numbers_of_one_model_alone_are_noted() -> None:
    rows = np.random.default_rng(0).normal(size=(2, 30))
    first, second = result({"m": rows[0], "old": rows[1]}), result({"m": rows[1], "c/x": rows[0]}, unsampled=())
    found = compare(first, second, replicates=20)
    assert found.signature["notes"] == [
        "1 number is of first alone, such as old",
        "1 number is of second alone, such as c/x",
    ]
    sampled = result({"m": rows[0], "c/x": rows[1]}, unsampled=("c/x",))
    noted = compare(sampled, sampled, replicates=20)
    assert noted.signature["notes"] == [
        "no replicate tells the models apart: m",
        "not compared, since the metric gives no replicates of them: c",
    ]
    some = (result({"c/x": rows[0], "c/y": other}) for other in rows)
    assert compare(*some, replicates=20).signature["notes"] == ["no replicate tells the models apart: c (1 of 2)"]


def test_no_permutation_says_why() -> None:
    first, second = model(0.0), model(0.1)
    assert compare(first, second, replicates=20, permutations=0).reason("p_permutation/m") == "no permutation was made"
    rows = np.random.default_rng(0).normal(size=(2, 30))
    apart = compare(result({"m": rows[0]}, joins=False), result({"m": rows[1]}, joins=False), replicates=20)
    assert str(apart.reason("p_permutation/m")).startswith("the states of these models cannot be joined")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((model(0.0),), InputTypeError, "second must be a model but is None"),
        (({"a": model(0.0)},), InputError, "a mapping of models must have at least 2 but has 1"),
        (({"a": model(0.0), 2: model(0.1)},), InputTypeError, "names of models must be texts but one is 2"),
        (({"a": model(0.0), "b": model(0.1)}, model(0.2)), InputTypeError, "second must be None where first is a map"),
        ((model(0.0), 5), InputTypeError, "second must be a result, a metric or a state file but is int"),
    ],
)
def test_models_are_checked(given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        compare(*given)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"baseline": "z"}, "baseline must be one of the models, or the name of one in a mapping, but is 'z'"),
        ({"adjust": "bonferroni"}, "adjust must be"),
        ({"power": 1.0}, "power must be above 0 and below 1 but is 1.0"),
        ({"permutations": -1}, "permutations must be at least 0"),
        ({"replicates": 1}, "replicates must be"),
        ({"replicates": 10**12, "permutations": 0}, "replicates must be at most 10,000,000 but is 1000000000000"),
        ({"permutations": 10**8}, "permutations must be at most 10,000,000 but is 100000000"),
        ({"confidence": 1.0}, "confidence must be above 0 and below 1"),
    ],
)
def test_choices_are_checked(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare(model(0.0), model(0.1), **choices)


def test_messages_name_the_models() -> None:
    old, new, other = model(0), model(0.1, seed=1), model(0.2, units=39)
    with pytest.raises(InputError, match=r"same rows but 40 came to old and 39 to short|missing from short"):
        compare({"old": old, "new": new, "short": other}, replicates=20)
    with pytest.raises(InputError, match=r"to the third|missing from the third"):
        compare(old, new, other, replicates=20)
    cut = Result({"m": 1.0}, Signature({"metric": "Means", "thresholds": 3}), state=vars(old)["_state"])
    with pytest.raises(InputError, match="but thresholds is none of old and 3 of odd"):
        compare({"old": old, "odd": cut}, replicates=20)
