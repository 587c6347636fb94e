"""Numbers of slices: those of a run on the images of a slice alone, whatever form the table has."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from tests.numpy_sums import needs_recorded_order
from valor_gpu.analysis.slice_columns import crossed, dealt
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.result import Result, Signature
from valor_gpu.stats import Bootstrap

DATA = Path(__file__).parents[2] / "examples/data"
NUMBERS = ["map", "map_50", "mar_100", "map_per_class/person"]


@lru_cache
def sides() -> tuple[Any, Any]:
    with contextlib.redirect_stdout(io.StringIO()):
        ground_truths = COCO(str(DATA / "instances_val2014_100.json"))
        return ground_truths, ground_truths.loadRes(str(DATA / "instances_val2014_fakebbox100_results.json"))


def evaluated(image_ids: Sequence[int] | None = None) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(*sides(), "bbox")
        if image_ids is not None:
            evaluation.params.imgIds = list(image_ids)
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation


@lru_cache
def whole() -> Result:
    return evaluated().result()  # type: ignore[no-any-return]


def image_ids() -> list[int]:
    return sorted(sides()[0].getImgIds())


def table(seed: int = 0) -> dict[str, list[Any]]:
    """Three kinds of weather and hours, in an order of its own; some images have no hour."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(image_ids()).tolist()
    hours = [None if rng.random() < 0.1 else int(rng.integers(0, 24)) for _ in ids]
    return {"image_id": ids, "weather": rng.choice(["sun", "rain", "fog"], len(ids)).tolist(), "hour": hours}


def bits(values: Any) -> list[str]:
    return [repr(float(value)) for value in values]


@needs_recorded_order
def test_numbers_are_those_of_a_run_on_the_images_of_the_slice() -> None:
    given = table()
    found = whole().by(given, "weather", "hour", ("weather", "hour"), bins={"hour": [6, 12, 18]})
    assert found.numbers[:3] == ["map", "map_50", "map_75"] and "/" not in "".join(found.numbers)
    edges = [(-math.inf, 6, "below 6"), (6, 12, "6 to below 12"), (12, 18, "12 to below 18"), (18, 99, "18 or above")]

    def hour(value: int | None) -> str | None:
        return next((name for low, high, name in edges if value is not None and low <= value < high), None)

    rows = list(zip(given["image_id"], given["weather"], map(hour, given["hour"])))
    kinds = {
        "weather": lambda weather, hours: weather,
        "hour": lambda weather, hours: hours,
        "weather, hour": lambda weather, hours: f"{weather}, {hours or 'none'}",
    }
    counts = {image: 0 for image in given["image_id"]}
    for annotation in sides()[0].dataset["annotations"]:
        counts[annotation["image_id"]] += not annotation["iscrowd"]
    assert found["column"] == sorted(found["column"], key=list(kinds).index)
    for row in found.rows():
        ids = [image for image, *values in rows if kinds[row["column"]](*values) == row["value"]]
        assert row["images"] == len(ids) > 0 and row["ground_truths"] == sum(counts[image] for image in ids)
        expected = dict(numbers_of(evaluated(ids).result().values))
        assert bits(row[name] for name in found.numbers) == bits(expected[name] for name in found.numbers)
    for column in kinds:
        assert sum(row["images"] for row in found.rows() if row["column"] == column) == len(rows)
    assert [row["value"] for row in found.rows() if row["column"] == "weather"] == ["fog", "rain", "sun"]
    named = [name for _, _, name in edges]
    assert [row["value"] for row in found.rows() if row["column"] == "hour"] == [*named, None]


def test_a_slice_of_all_images_has_the_bits_of_the_result() -> None:
    found = whole().by({"image_id": image_ids(), "all": ["yes"] * len(image_ids())}, "all", numbers=None)
    expected = dict(numbers_of(whole().values))
    assert bits(found[name][0] for name in found.numbers) == bits(expected[name] for name in found.numbers)
    assert found.choices["metric"] == "COCOeval"


def test_numbers_of_classes_are_taken_by_their_names() -> None:
    found = whole().by(table(), "weather", numbers=["mar_100", "map_per_class"])
    classes = len(whole().values["map_per_class"])
    assert len(found.numbers) == 1 + classes and found.numbers[0] == "mar_100"
    absent = [name for name in found.numbers if np.isnan(found[name]).all()]
    assert absent and set(found[f"{absent[0]}_reason"]) == {"no ground truth counts for it"}
    assert not any(f"{name}_reason" in found.columns for name in found.numbers if not np.isnan(found[name]).any())
    with pytest.raises(InputError, match=r"numbers must be among 'map', .* but got 'map_5'; did you mean"):
        whole().by(table(), "weather", numbers=["map_5"])
    with pytest.raises(InputTypeError, match="numbers must be a list of names but is the text 'map'"):
        whole().by(table(), "weather", numbers="map")


# --------------------------------------------------------------------------------------------------------------- tables


def test_every_form_of_a_table_gives_the_same(tmp_path: Path) -> None:
    given = table()
    given["hour"] = [hour if hour is not None else None for hour in given["hour"]]
    frame = pandas.DataFrame(given)
    paths = {ending: tmp_path / f"table{ending}" for ending in (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz")}
    frame.to_csv(paths[".csv"], index=False)
    frame.to_csv(paths[".tsv"], index=False, sep="\t")
    frame.to_csv(paths[".csv.gz"], index=False)
    rows = [dict(zip(given, values)) for values in zip(*given.values())]
    paths[".jsonl"].write_text(
        "".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows)
    )
    parquet.write_table(pyarrow.table(given), paths[".parquet"])
    forms = [given, frame, pyarrow.table(given), rows, *paths.values(), str(paths[".csv"])]
    columns, bins = ("weather", "hour", ("hour", "weather")), {"hour": [6, 18]}
    expected = whole().by(given, *columns, bins=bins, numbers=NUMBERS)
    assert "hour" in expected["column"] and None in expected["value"]
    for form in forms:
        found = whole().by(form, *columns, bins=bins, numbers=NUMBERS)
        assert repr(found.rows()) == repr(expected.rows()), type(form)


def test_images_are_known_by_id_text_or_file_name() -> None:
    given = table()
    expected = repr(whole().by(given, "weather", numbers=NUMBERS).rows())
    names = {image["id"]: image["file_name"] for image in sides()[0].dataset["images"]}
    others: list[dict[str, Any]] = [
        {"image_id": [str(image) for image in given["image_id"]]},
        {"image_id": [float(image) for image in given["image_id"]]},
        {"image": [f" {image}" for image in given["image_id"]], "file_name": ["no name"] * len(names)},
        {"file_name": [names[image] for image in given["image_id"]]},
    ]
    for ids in others:
        assert repr(whole().by({**ids, "weather": given["weather"]}, "weather", numbers=NUMBERS).rows()) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t | {"image_id": [*t["image_id"][:-1], -5]}, "1 of 100 are of none, the first is image_id -5"),
        (lambda t: {name: column[2:] for name, column in t.items()}, "but 2 of 100 are missing, the first is image_id"),
        (lambda t: t | {"image_id": t["image_id"][:-1] + t["image_id"][:1]}, "one row for each image but image_id"),
        (lambda t: t | {"image_id": [None, *t["image_id"][1:]]}, "must have image_id in every row but row 0 has none"),
        (lambda t: {"weather": t["weather"]}, "must have a column 'image_id', 'image' or 'file_name'"),
        (lambda t: t | {"weather": t["weather"][1:]}, "must have columns of one length but has"),
        (lambda t: {"image_id": t["image_id"]}, "columns must be among none, which table has, but got 'weather'"),
        (lambda t: t | {"weather": [["a"]] * 100}, r"table\['weather'\] must hold numbers, texts, flags or moments"),
    ],
)
def test_tables_that_do_not_fit_are_errors(change: Any, said: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=said):
        whole().by(change(table()), "weather")


@pytest.mark.parametrize(
    ("arguments", "choices", "said"),
    [
        ((), {}, "columns must name at least one column but none came"),
        (("wether",), {}, "columns must be among 'weather', 'hour', which table has, but got 'wether'; did you mean"),
        ((3,), {}, "columns must be names, or tuples of names, but one is 3"),
        (("weather",), {"bins": {"hour": [6]}}, "bins must be of the columns 'weather' but got 'hour'"),
        (("hour",), {"bins": [6]}, "bins must be a mapping of columns to edges but is list"),
        (("hour",), {"bins": {"hour": []}}, r"bins\['hour'\] must be one or more edges that ascend but got \[\]"),
        (("hour",), {"bins": {"hour": [6, 6]}}, r"must be one or more edges that ascend but got \[6, 6\]"),
        (("hour",), {"bins": {"hour": [6, math.nan]}}, "must be one or more edges that ascend"),
        (("hour",), {"bins": {"hour": 6}}, r"bins\['hour'\] must be a sequence of edges but is 6"),
        (("weather",), {"bins": {"weather": [6]}}, r"table\['weather'\] must hold values that compare with the bins"),
        (("hour",), {"intervals": 1}, "replicates must be at least 2 but got 1"),
    ],
)
def test_choices_out_of_range_are_errors(arguments: Any, choices: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=said):
        whole().by(table(), *arguments, **choices)


@pytest.mark.parametrize("given", [3, [1, 2], {"weather": "rain"}])
def test_what_is_no_table_is_an_error(given: Any) -> None:
    with pytest.raises(InputTypeError, match="table"):
        whole().by(given, "weather")


def test_a_result_of_a_file_has_no_slices(tmp_path: Path) -> None:
    whole().save(tmp_path / "result.json")
    with pytest.raises(InputError, match=r"by\(\) needs the data that the result came from.*: it is from a file, or"):
        Result.load(tmp_path / "result.json").by(table(), "weather")
    with pytest.raises(InputError, match=r"by\(\) needs the data"):
        Result({"ap": 0.5}, Signature({})).by(table(), "weather")


# ------------------------------------------------------------------------------------------------------- dealing images


def test_values_ascend_as_numbers_or_texts_and_none_is_last() -> None:
    found = dealt("lane", ["10", "9", None, "2.5", "9", ""])
    assert list(found.values) == ["2.5", "9", "10", None]
    assert [group.tolist() for group in found.groups] == [[3], [1, 4], [0], [2, 5]]
    assert list(dealt("lane", ["10", "b", "9"]).values) == ["10", "9", "b"]
    assert list(dealt("flag", [True, False, np.bool_(True), math.nan]).values) == ["False", "True", None]
    assert list(dealt("hour", [6.0, 6, "6", 6.5]).values) == ["6", "6.5"]


def test_bins_are_half_open() -> None:
    found = dealt("hour", [5.9, 6, "11.99", 12, None, 12.5, -3], [6, 12])
    assert list(found.values) == ["below 6", "6 to below 12", "12 or above", None]
    assert [group.tolist() for group in found.groups] == [[0, 6], [1, 2], [3, 5], [4]]
    moments = pandas.to_datetime(["2024-01-05", "2024-03-01", None]).tolist()
    by_day = dealt("day", moments, [pandas.Timestamp("2024-02-01")])
    assert [group.tolist() for group in by_day.groups] == [[0], [1], [2]]
    assert list(dealt("name", ["a", "n"], ["m"]).values) == ["below m", "m or above"]


def test_crossings_have_the_combinations_that_are_there() -> None:
    found = crossed([dealt("a", ["x", "y", None, "x"]), dealt("b", [1, 2, 1, 1])], 4)
    assert (found.column, list(found.values)) == ("a, b", ["x, 1", "y, 2", "none, 1"])
    assert [group.tolist() for group in found.groups] == [[0, 3], [1], [2]]


# ----------------------------------------------------------------------------------------------- columns of the result


def test_crowding_counts_the_ground_truths_of_images() -> None:
    counts = dict.fromkeys(image_ids(), 0)
    for annotation in sides()[0].dataset["annotations"]:
        counts[annotation["image_id"]] += not annotation["iscrowd"]
    expected = whole().by({"image_id": list(counts), "n": list(counts.values())}, "n", bins={"n": [1, 6, 11, 26]})
    found = whole().by("crowding")
    assert [row | {"column": "n"} for row in map(_shown, found.rows())] == list(map(_shown, expected.rows()))
    assert "1 to below 6" in found["value"] and set(found["column"]) == {"crowding"}
    assert whole().by("crowding", bins={"crowding": [10]})["value"] == ["below 10", "10 or above"]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: repr(value) if isinstance(value, float) else value for name, value in row.items()}


def test_image_size_is_that_of_the_images() -> None:
    images = {image["id"]: image for image in sides()[0].dataset["images"]}
    sizes = [math.sqrt(images[image]["width"] * images[image]["height"]) for image in image_ids()]
    expected = whole().by({"image_id": image_ids(), "s": sizes}, "s", bins={"s": [500, 550]}, numbers=NUMBERS)
    found = whole().by("image_size", bins={"image_size": [500, 550]}, numbers=NUMBERS)
    assert [row["images"] for row in found.rows()] == [row["images"] for row in expected.rows()]
    both = whole().by("image_size", ("image_size", "crowding"))
    assert set(both["column"]) == {"image_size", "image_size, crowding"}
    beside = whole().by(table(), "weather", ("weather", "crowding"), bins={"crowding": [6]}, numbers=["map"])
    assert {"fog, below 6", "rain, 6 or above"} <= set(beside["value"])
    with pytest.raises(InputError, match=r"without a table but got 'weather'"):
        whole().by("crowding", "weather")
    with pytest.raises(InputError, match=r"'size' is of objects: ask for it by itself, by\('size'\)"):
        whole().by("crowding", ("crowding", "size"))
    with pytest.raises(InputError, match=r"one of 'crowding', .* but got 'crowdin'; did you mean 'crowding'\?"):
        whole().by("crowdin")


def test_slices_of_objects_stand_beside_those_of_images() -> None:
    found = whole().by(table(), "weather", "size", "crowding")
    parts = [whole().by(table(), "weather"), whole().by("size"), whole().by("crowding")]
    for name in ("column", "value", "images", "ground_truths"):
        assert found[name] == [value for part in parts for value in part[name]]
    for row, alone in zip(found.rows(), [row for part in parts for row in part.rows()]):
        known = [name for name in found.numbers if name in alone]
        assert bits(row[name] for name in known) == bits(alone[name] for name in known)
        if row["column"] == "size":
            assert math.isnan(row["map_small"]) and row["map_small_reason"] == "not of slices of objects"
    own = {**table(), "size": ["big"] * len(image_ids())}
    assert [row["value"] for row in whole().by(own, "size").rows()] == ["big"]


# ------------------------------------------------------------------------------------------------------------ intervals


def test_intervals_are_those_of_a_run_on_the_images_of_the_slice() -> None:
    given, clusters = table(), {image: image % 7 for image in image_ids()}
    chosen = Bootstrap(30, seed=3, clusters=clusters)
    in_order = Bootstrap(30, seed=3, clusters=[clusters[image] for image in image_ids()])
    found = whole().by(given, "weather", intervals=chosen, numbers=["map", "map_per_class/person"])
    assert list(found.columns)[4:7] == ["map", "map_low", "map_high"]
    for row in found.rows():
        ids = [image for image, weather in zip(given["image_id"], given["weather"]) if weather == row["value"]]
        own = Bootstrap(30, seed=3, clusters={image: clusters[image] for image in ids})
        expected = evaluated(ids).result().with_intervals(own).intervals
        for name in found.numbers:
            ends = row[f"{name}_low"], row[f"{name}_high"]
            assert bits(ends) == bits((expected[name].low, expected[name].high))
    again = whole().by(given, "weather", intervals=in_order, numbers=["map", "map_per_class/person"])
    assert repr(again.rows()) == repr(found.rows())
    with pytest.raises(InputError, match="clusters must name every image but 1 are missing"):
        whole().by(given, "weather", intervals=Bootstrap(30, clusters=dict(list(clusters.items())[1:])))
    with pytest.raises(InputError, match="clusters must be one for each of 100 images but are 3"):
        whole().by(given, "weather", intervals=Bootstrap(30, clusters=[1, 2, 3]))


def test_few_images_have_a_reason_in_place_of_an_interval() -> None:
    given = {"image_id": image_ids(), "first": ["yes"] + ["no"] * (len(image_ids()) - 1)}
    found = whole().by(given, "first", intervals=20, numbers=["map"])
    row = {row["value"]: row for row in found.rows()}["yes"]
    assert row["images"] == 1 and math.isnan(row["map_low"])
    assert row["map_reason"].startswith("no interval: too few images")


def test_the_text_shows_the_first_numbers() -> None:
    text = str(whole().by(table(), "weather", intervals=20)).splitlines()
    assert text[0].split()[:4] == ["slice", "images", "ground", "truths"] and "map_75" in text[0]
    assert [line.split()[1] for line in text[1:4]] == ["fog", "rain", "sun"]
    assert " to " in text[1] and text[-1].endswith("more numbers are in the table")
    assert len({len(line) for line in text[:4]}) == 1


# ------------------------------------------------------------------------------------------------------------- objects


def test_sizes_are_the_area_ranges_of_coco() -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(*sides(), "bbox")
        evaluation.params.areaRng = [[0, 1e10], [0, 32**2], [32**2, 96**2], [96**2, 1e10]]
        evaluation.evaluate()
        evaluation.accumulate()
    expected = evaluation.result().values
    found = whole().by("size", numbers=["map"])
    assert found["value"] == ["below 1024", "1024 to below 9216", "9216 or above"]
    assert bits(found["map"]) == bits(expected[f"map_{name}"] for name in ("small", "medium", "large"))
    assert set(found["images"]) == {len(image_ids())}
    ratios = whole().by("aspect_ratio", bins={"aspect_ratio": [1]})
    assert ratios["value"] == ["below 1", "1 or above"] and sum(ratios["ground_truths"]) > 0
    with pytest.raises(InputError, match="intervals must be None with 'size', whose slices are of objects"):
        whole().by("size", intervals=20)
