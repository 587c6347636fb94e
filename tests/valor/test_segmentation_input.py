"""Input of segmentations: what is refused, with which words; frames; masks that come from geometry; large rasters."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas
import pytest

from tests.valor import segmentation_scenes as scenes
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    Filter,
    GeoJSON,
    GroundTruth,
    Label,
    MultiPolygon,
    Polygon,
    Prediction,
    Raster,
    evaluate_segmentation,
    pixel_keys,
)
from valor_gpu.valor.filters import score

ONES = np.ones((2, 3), np.bool_)
MASK = scenes.annotation("k", "x", ONES)
TRUTH, FOUND = GroundTruth(Datum("a"), [MASK]), Prediction(Datum("a"), [MASK])
TALL = scenes.annotation("k", "x", ONES.T)
SCORED = Annotation(labels=[Label("k", "x", 0.5)], raster=Raster(ONES))
SQUARE = Box.from_extrema(0, 1, 0, 1)
DRAWN = Annotation(labels=[Label("k", "x")], polygon=SQUARE)
BOXED = Annotation(labels=[Label("k", "x")], bounding_box=SQUARE)
TWICE = Annotation(labels=[Label("k", "x")], polygon=SQUARE, raster=Raster(ONES))
NO_MASK = Annotation(
    labels=[Label("k", "x")],
    bounding_box=SQUARE,
    implied_task_types=["semantic-segmentation"],
)
LEFT = Annotation(labels=[Label("k", "x")], polygon=Box.from_extrema(-1, 1, 0, 1))


def prediction(*annotations: Annotation) -> Prediction:
    return Prediction(Datum("a"), list(annotations))


REFUSED: list[tuple[Any, Any, dict[str, Any], str]] = [
    ([TRUTH], [prediction(MASK, TALL)], {}, r"predictions annotation 1 of datum 'a' .* 2 x 3 pixels, as groundtruths "
     r"annotation 0 has, but has 3 x 2"),
    ([GroundTruth(Datum("a"), [MASK, TALL])], [FOUND], {}, r"groundtruths annotation 1 of datum 'a' .* has 3 x 2"),
    ([TRUTH], [prediction(SCORED)], {}, r"predictions must have no scores in a segmentation but got 0.5 for k: x of"),
    ([TRUTH], [prediction(NO_MASK)], {}, r"annotation 0 of datum 'a' must have a raster .* Raster.from_geometry"),
    ([TRUTH], [prediction(BOXED)], {}, r"labels of datum 'a' fit none"),
    ([TRUTH], [prediction(TWICE)], {}, r"labels of datum 'a' fit none"),
    ([TRUTH], [prediction(LEFT)], {}, r"predictions annotation 0 of datum 'a': a raster .* negative"),
    ([TRUTH], [Prediction(Datum("b"), [DRAWN])], {}, r"annotation 0 of datum 'b' has a polygon, which needs the size "
     r"of the image: .* but these are None and None"),
    ([TRUTH], [Prediction(Datum("b", metadata={"height": 4, "width": 2.5}), [DRAWN])], {}, r"but these are 4 and 2.5"),
    ([TRUTH], [], {}, r"predictions must hold at least one Prediction but is empty"),
    ([], [FOUND], {}, r"groundtruths must hold at least one GroundTruth but is empty"),
    ([GroundTruth(Datum("a"), [])], [prediction()], {}, r"must hold a label of a segmentation but hold none"),
    ([FOUND], [FOUND], {}, r"groundtruths must hold GroundTruth objects but got Prediction"),
    (3, [FOUND], {}, r"groundtruths must be a list of GroundTruth objects or a frame but got int"),
    ([GroundTruth(Datum(), [MASK])], [FOUND], {}, r"groundtruths must have datums with a uid but got None"),
    ([TRUTH], [FOUND], {"metrics_to_return": ["AP"]}, r"metrics_to_return must be among Accuracy, .* but holds 'AP'"),
    ([TRUTH], [FOUND], {"metrics_to_return": "IOU"}, r"metrics_to_return must be"),
    ([TRUTH], [FOUND], {"label_map": 3}, r"label_map must be a dict of Label to Label"),
    ([TRUTH], [FOUND], {"filters": 3}, r"filters must be"),
    ([TRUTH], [FOUND], {"filters": Filter(predictions=score > 0.5)}, r"filters must not compare score"),
    ([TRUTH], [FOUND], {"compat": "coco"}, r"compat must be None or 'valor-lite' but got 'coco': .* detection"),
    ([TRUTH], [FOUND], {"compat": "valor-core"}, r"but got 'valor-core': valor_core has no segmentation"),
    ([TRUTH], [FOUND], {"compat": "valor-api"}, r"but got 'valor-api': the default has the definitions of Valor's"),
    ([TRUTH], [FOUND], {"compat": "valor"}, r"compat must be"),
]  # fmt: skip


@pytest.mark.parametrize(("truths", "found", "choices", "message"), REFUSED)
def test_bad_input_is_refused(truths: Any, found: Any, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_segmentation(truths, found, **choices)


def frame(scene: scenes.Scene, side: int) -> dict[str, list[Any]]:
    rows = [(uid, key, value, mask) for uid, sides in scene.items() for key, value, mask in sides[side]]
    names = ("datum_uid", "label_key", "label_value", "raster")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


@pytest.mark.parametrize("make", [dict, pandas.DataFrame])
def test_frames_equal_objects(make: Any) -> None:
    for seed in range(5):
        scene = scenes.random_scene(np.random.default_rng(seed))
        expected = evaluate_segmentation(*scenes.objects(scene)).metrics
        frames = [frame(scene, side) for side in (0, 1)]
        frames[0]["raster"] = [Raster(mask) for mask in frames[0]["raster"]]
        assert evaluate_segmentation(*map(make, frames)).metrics == expected


def test_a_stack_of_masks_is_a_column() -> None:
    sides = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": ["x", "x"]}
    masks = np.array([[[True, False]], [[True, True]]])
    found = evaluate_segmentation({**sides, "raster": masks}, {**sides, "raster": ~masks})
    assert found.metrics[0]["value"] == 0.0
    labels = {"datum_uid": ["a", "a"], "label_key": ["k", "j"], "label_value": ["x", "y"], "annotation_id": [7, 7]}
    both = {**labels, "raster": masks[[0, 0]]}
    assert (evaluate_segmentation(both, both).meta or {})["annotations"] == 2


FRAME = {"datum_uid": ["a", 1], "label_key": ["k", "k"], "label_value": ["x", "x"], "raster": [ONES, ONES]}
BAD_FRAMES: list[tuple[dict[str, Any], str]] = [
    ({"raster": [ONES, ONES.T], "datum_uid": ["a", "a"]}, r"predictions row 1 of datum 'a' .* but has 3 x 2"),
    ({"raster": [ONES.T, ONES], "datum_uid": ["1", "a"]}, r"row 0 of datum '1' .* groundtruths row 1 has, but has 3 x"),
    ({"score": [0.5, 0.5]}, r"predictions must have no scores in a segmentation but got 0.5 for k: x of datum 'a'"),
    ({"raster": [np.ones(3), ONES]}, r"Raster.mask must be two-dimensional bool but got float64 \[3\]"),
    (
        {"raster": [ONES, ~ONES], "annotation_id": [1, 1], "datum_uid": ["a", "a"]},
        r"one raster an annotation but rows 0 and 1 differ",
    ),
    ({"raster": ["x", ONES]}, r"Raster.mask must be"),
    ({"raster": [ONES]}, r"predictions must have columns of one length but 'raster' has 1, not 2"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_FRAMES)
def test_bad_frames_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_segmentation(FRAME, {**FRAME, **changes})


def test_a_frame_without_rasters() -> None:
    with pytest.raises(InputError, match=r"predictions must have a column 'raster' but has 'datum_uid'"):
        evaluate_segmentation(FRAME, {name: FRAME[name] for name in FRAME if name != "raster"})
    rows = {name: values[:0] for name, values in FRAME.items()}
    assert evaluate_segmentation(FRAME, rows).metrics[0]["value"] == 0.0
    other = {**FRAME, "is_instance": [True, False]}
    assert (evaluate_segmentation(other, FRAME).meta or {})["ignored_annotations"] == {
        "groundtruths": 1,
        "predictions": 0,
    }


def ring(x: int, y: int, size: int) -> list[tuple[float, float]]:
    return [(x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y)]


SHAPES = [Box.from_extrema(1, 4, 0, 3), MultiPolygon([[ring(0, 0, 2)], [ring(3, 3, 2)]]),
          Polygon([ring(0, 0, 6), ring(2, 2, 3)])]  # fmt: skip
OUTLINES = [Annotation(labels=[Label("k", "x")], polygon=shape) for shape in SHAPES]
FILLED = [Annotation(labels=[Label("k", "x")], raster=Raster.from_geometry(shape, 7, 9)) for shape in SHAPES]
NOISE = scenes.annotation("k", "x", np.random.default_rng(0).random((7, 9)) < 0.3)
SIZE = {"height": np.int64(7), "width": 9}


@pytest.mark.parametrize(
    ("true", "found", "metadata"), [((0, 1), (2,), SIZE), ((0,), (1, None), None), ((None, 2), (0, 1), None)]
)
@pytest.mark.parametrize("compat", [None, "valor-lite"])
@pytest.mark.filterwarnings("ignore:.* pixels of .* lie in masks of several labels")
def test_polygons_are_drawn_in_the_size_of_their_datum(true: Any, found: Any, metadata: Any, compat: Any) -> None:
    """A datum has the size of a raster, of either side and wherever in the lists, else that of its metadata."""
    metrics = []
    for given in (OUTLINES, FILLED):
        image = Datum("a", metadata=metadata)
        truth, side = ([NOISE if place is None else given[place] for place in places] for places in (true, found))
        metrics.append(evaluate_segmentation([GroundTruth(image, truth)], [Prediction(image, side)], compat=compat))
    assert metrics[0].metrics == metrics[1].metrics
    assert OUTLINES[0].implied_task_types == ["skip"], "as in valor_core"


def test_drawn_polygons_are_not_all_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    image = [Datum(str(number), metadata={"height": 512, "width": 512}) for number in range(64)]
    drawn = [Annotation(labels=[Label("k", "x")], polygon=Box.from_extrema(0, side, 0, 500)) for side in (400, 500)]
    sides = [GroundTruth(each, drawn[:1]) for each in image], [Prediction(each, drawn[1:]) for each in image]
    evaluate_segmentation(sides[0][:1], sides[1][:1])  # what is loaded once
    monkeypatch.setattr(pixel_keys, "GROUP_BYTES", 1 << 21)
    tracemalloc.start()
    found = evaluate_segmentation(*sides)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.metrics[0]["value"] == 0.8 and (found.meta or {})["pixels"] == 64 * 512**2
    assert peak < 6 << 20, "2 MiB of masks and what draws one; all take 32 MiB"


def test_polygons_of_frames() -> None:
    labels = {"datum_uid": ["a"] * 3, "label_key": ["k"] * 3, "label_value": ["x"] * 3}
    polygons: list[Any] = [SHAPES[0], SHAPES[1].to_dict(), SHAPES[2].to_json()]
    drawn = {**labels, "polygon": polygons, "datum_metadata": [SIZE] * 3}
    masks = [each.raster.mask for each in (*FILLED, NOISE) if each.raster is not None]
    rasters = {**labels, "raster": [*masks[:2], masks[3]]}
    expected = evaluate_segmentation({**labels, "raster": masks[:3]}, rasters).metrics
    mixed = {**drawn, "raster": [None, None, masks[2]]}
    assert evaluate_segmentation(drawn, rasters).metrics == expected
    assert evaluate_segmentation({**mixed, "polygon": [*polygons[:2], None]}, rasters).metrics == expected
    with pytest.raises(InputError, match=r"row 2 of datum 'a': polygon must be a Polygon or MultiPolygon of GeoJSON"):
        evaluate_segmentation({**drawn, "polygon": [*polygons[:2], {"type": "Point"}]}, rasters)
    with pytest.raises(InputError, match=r"row 1 of datum 'a': polygon must be Polygon or MultiPolygon but got int"):
        evaluate_segmentation({**drawn, "polygon": [polygons[0], 3, None]}, rasters)
    with pytest.raises(InputError, match=r"datum 'a' fit none"):
        evaluate_segmentation(mixed, rasters)


def test_a_multipolygon_is_the_union_of_its_polygons() -> None:
    value = [[ring(0, 0, 4), ring(1, 1, 2)], [ring(2, 2, 4)]]
    both = MultiPolygon(value)
    masks = [Raster.from_geometry(one, 7, 8).mask for one in both.polygons]
    mask = Raster.from_geometry(both, 7, 8).mask
    assert np.array_equal(mask, masks[0] | masks[1]) and mask.sum() == 12 + 16 - 3
    assert both == MultiPolygon.from_dict(both.to_dict()) == GeoJSON("MultiPolygon", value).geometry
    first, second = both.to_wkt().split(")),((")
    assert first.startswith("MULTIPOLYGON (((0 0, 4 0,") and second == "2 2, 6 2, 6 6, 2 6, 2 2)))"


@pytest.mark.parametrize(
    ("value", "message"),
    [([], r"at least one polygon"), ([[]], r"at least one ring"), (3, r"MultiPolygon.value"),
     ([[[(0, 0), (1, 1)]]], r"at least 4 points")],
)  # fmt: skip
def test_bad_multipolygons_are_refused(value: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        MultiPolygon(value)


@pytest.mark.parametrize("size", [(-1, 3), (3, 2.5), (3, "x")])
def test_rasters_have_a_size(size: Any) -> None:
    for make, shape in ((Raster.from_geometry, Box.from_extrema(0, 1, 0, 1)), (Raster.from_coordinates, [])):
        with pytest.raises(InputError, match=r"(height|width) must be"):
            make(shape, *size)  # type: ignore[operator]
        assert make(shape, np.int64(2), np.uint8(3)).mask.shape == (2, 3)  # type: ignore[operator]


def test_geometries_as_rasters() -> None:
    shapes = [Box.from_extrema(0, 4, 0, 4), Polygon([ring(0, 0, 4)]), MultiPolygon([[ring(0, 0, 2)], [ring(2, 2, 2)]])]
    masks = [scenes.annotation("k", "x", Raster.from_geometry(shape, 6, 6).mask) for shape in shapes]
    found = [
        evaluate_segmentation([GroundTruth(Datum("a"), [masks[0]])], [prediction(mask)]).metrics[0]["value"]
        for mask in masks
    ]
    assert found == [1.0, 1.0, 0.5]


def test_rasters_without_pixels_and_of_any_strides() -> None:
    empty = scenes.annotation("k", "x", np.zeros((0, 5), np.bool_))
    found = evaluate_segmentation([GroundTruth(Datum("a"), [empty])], [prediction(empty)])
    assert (found.metrics[0]["value"], (found.meta or {})["pixels"]) == (None, 0)
    mask = np.random.default_rng(1).random((40, 30)) < 0.5
    turned = [mask, np.asfortranarray(mask), np.repeat(mask, 2, 1)[:, ::2], mask[::-1][::-1]]
    truths = [GroundTruth(Datum(str(i)), [scenes.annotation("k", "x", one)]) for i, one in enumerate(turned)]
    same = [Prediction(Datum(str(i)), [scenes.annotation("k", "x", mask)]) for i in range(4)]
    assert evaluate_segmentation(truths, same).metrics[0]["value"] == 1.0


def test_large_rasters() -> None:
    rows, size = 50, 1000
    band = size // rows
    masks, moved = [], []
    for row in range(rows):
        mask = np.zeros((size, size), np.bool_)
        mask[row * band : (row + 1) * band] = True
        masks.append(scenes.annotation("k", f"v{row}", mask))
        moved.append(scenes.annotation("k", f"v{row}", np.roll(mask, band // 2, 0)))
    found = evaluate_segmentation([GroundTruth(Datum("a"), masks)], [prediction(*moved)])
    values = [metric["value"] for metric in found.metrics if metric["type"] == "IOU"]
    assert values == [pytest.approx(1 / 3, abs=1e-15)] * rows
