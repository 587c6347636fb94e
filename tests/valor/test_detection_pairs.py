"""Pairs of annotations that overlap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.valor import cases
from tests.valor.detection_scenes import SIZE, as_objects, box_frames, mixed_objects, read
from valor_gpu.errors import InputError
from valor_gpu.inputs import polygon_to_box, raster_to_box, raster_to_polygon, to_raster
from valor_gpu.ops.boxes.op import box_iou
from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, MultiPolygon, Polygon, Prediction, Raster
from valor_gpu.valor.columns import Columns
from valor_gpu.valor.detection.conversion import common_type
from valor_gpu.valor.detection.pairs import FoundOverlaps, find_overlaps
from valor_gpu.valor.enums import AnnotationType

Listed = list[tuple[int, int, float]]


def listed(found: FoundOverlaps) -> Listed:
    """Pairs as rows of predictions and of ground truths, and IoU."""
    rows, gt_rows = found.predictions, found.groundtruths
    pairs = zip(
        found.overlaps.detections().tolist(), found.overlaps.ground_truths.tolist(), found.overlaps.ious.tolist()
    )
    return [(int(rows[row]), int(gt_rows[gt]), iou) for row, gt, iou in pairs]


def expected(columns: Columns) -> Listed:
    """Every pair of rows of one datum and label key whose boxes overlap, by box_iou."""
    rows, gts = columns.predictions, columns.groundtruths
    assert rows.shapes is not None
    assert gts.shapes is not None
    ious = box_iou(torch.from_numpy(rows.shapes.boxes), torch.from_numpy(gts.shapes.boxes))
    return [
        (row, gt, iou)
        for row in range(len(rows))
        for gt in range(len(gts))
        if rows.datum[row] == gts.datum[gt]
        and columns.labels[rows.label[row]][0] == columns.labels[gts.label[gt]][0]
        and (iou := ious[rows.annotation[row], gts.annotation[gt]].item()) > 0
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["frames", "objects"])
def test_boxes_of_a_key_are_paired(seed: int, kind: str) -> None:
    frames = box_frames(seed)
    columns = read(*(map(as_objects, frames) if kind == "objects" else frames))
    found = find_overlaps(columns)
    assert sorted(listed(found)) == sorted(expected(columns))
    overlaps = found.overlaps
    sizes = torch.tensor([[(side.datum == datum).sum() for datum in range(len(columns.datums))]
                          for side in (columns.predictions, columns.groundtruths)])  # fmt: skip
    assert torch.equal(overlaps.sizes, sizes)
    assert overlaps.labels.tolist() == columns.predictions.label[found.predictions].tolist()
    assert overlaps.scores.tolist() == columns.predictions.score[found.predictions].tolist()
    assert overlaps.gt_labels.tolist() == columns.groundtruths.label[found.groundtruths].tolist()
    order = [(row, -iou, -gt) for row, gt, iou in zip(overlaps.detections().tolist(), overlaps.ground_truths.tolist(),
                                                      overlaps.ious.tolist())]  # fmt: skip
    assert order == sorted(order)


def test_a_side_may_have_no_rows() -> None:
    gt_frame, frame = box_frames(0)
    columns = read(gt_frame, {key: values[:0] for key, values in frame.items()})
    overlaps = find_overlaps(columns).overlaps
    assert (len(overlaps.labels), len(overlaps.gt_labels), len(overlaps.ious)) == (0, 60, 0)


# ------------------------------------------------------------------------------------------------ any kinds of geometry

Sides = tuple[list[GroundTruth], list[Prediction]]
Shape = tuple[str, Any]
"""``raster`` and a mask, or ``polygons`` and polygons of rings."""


def drawn(annotation: Annotation) -> Shape:
    if annotation.raster is not None:
        return "raster", annotation.raster.mask
    given = annotation.polygon or annotation.bounding_box
    return "polygons", given.value if isinstance(given, MultiPolygon) else [given.value]


def as_box(annotation: Annotation) -> Shape:
    kind, shape = drawn(annotation)
    if annotation.bounding_box is not None:
        return "polygons", [annotation.bounding_box.value]
    xmin, ymin, xmax, ymax = raster_to_box(shape) if kind == "raster" else polygon_to_box(shape)
    return "polygons", [Box.from_extrema(xmin, xmax, ymin, ymax).value]


def as_polygon(rule: str) -> Callable[[Annotation], Shape]:
    def convert(annotation: Annotation) -> Shape:
        kind, shape = drawn(annotation)
        return ("polygons", raster_to_polygon(shape, rule)) if kind == "raster" else (kind, shape)

    return convert


def pair_iou(one: Shape, other: Shape) -> float:
    if "raster" in (one[0], other[0]):
        a, b = (shape if kind == "raster" else to_raster(shape, SIZE) for kind, shape in (one, other))
        return float((a & b).sum() / max((a | b).sum(), 1))
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    areas = [
        shapely.union_all([shapely.Polygon(boundary, holes).buffer(0) for boundary, *holes in shape])
        for _, shape in (one, other)
    ]
    return float(areas[0].intersection(areas[1]).area / areas[0].union(areas[1]).area)


def ious_of(sides: Sides, convert: Callable[[Annotation], Shape] = drawn) -> dict[tuple[int, int], float]:
    """The IoU of every pair of rows of a datum and label key that overlaps."""
    rows = []
    for side in sides:
        given = [(d.datum.uid, a, label) for d in side for a in d.annotations for label in a.labels or ()]
        shapes = {id(a): convert(a) for _, a, _ in given}
        rows.append([(uid, label.key, shapes[id(a)]) for uid, a, label in given])
    return {
        (row, gt): iou
        for row, (uid, key, shape) in enumerate(rows[1])
        for gt, (gt_uid, gt_key, gt_shape) in enumerate(rows[0])
        if (uid, key) == (gt_uid, gt_key) and (iou := pair_iou(shape, gt_shape)) > 1e-9
    }


def check(sides: Sides, expected: dict[tuple[int, int], float], **choices: Any) -> None:
    found = find_overlaps(read(*sides), **choices)
    ious = {(row, gt): iou for row, gt, iou in listed(found) if iou > 1e-9}
    assert ious.keys() == expected.keys()
    assert all(abs(ious[pair] - expected[pair]) < 1e-12 for pair in ious)
    overlaps = found.overlaps
    columns = overlaps.detections().tolist(), overlaps.ious.tolist(), overlaps.ground_truths.tolist()
    order = [(row, -iou, -gt) for row, iou, gt in zip(*columns)]
    assert order == sorted(order)
    assert len(set(zip(columns[0], columns[2]))) == len(order)


VECTORS = ("upright", "turned", "polygon", "multipolygon")
EVERY = (*VECTORS, "raster")


@pytest.mark.parametrize("gt_kind", EVERY)
@pytest.mark.parametrize("kind", EVERY)
def test_every_kind_meets_every_other(kind: str, gt_kind: str) -> None:
    most = max(kind, gt_kind, key=EVERY.index)  # on both sides, so that it is the common type
    sides = mixed_objects(len(kind) + 10 * len(gt_kind), (kind, most), (gt_kind, most))
    check(sides, ious_of(sides))


@pytest.mark.parametrize("seed", range(4))
def test_all_kinds_meet(seed: int) -> None:
    sides = mixed_objects(seed, EVERY, EVERY)
    assert common_type(read(*sides)) is AnnotationType.RASTER
    check(sides, ious_of(sides))


@pytest.mark.parametrize("seed", range(3))
def test_rasters_stay_beside_polygons(seed: int) -> None:
    sides = mixed_objects(seed, EVERY, VECTORS)
    assert common_type(read(*sides)) is AnnotationType.POLYGON
    check(sides, ious_of(sides))


@pytest.mark.parametrize("rule", ["outline", "hull"])
def test_rasters_become_polygons(rule: str) -> None:
    kinds = "polygon", "raster"
    sides = mixed_objects(1, kinds, kinds)
    check(sides, ious_of(sides, as_polygon(rule)), convert=AnnotationType.POLYGON, raster_to_polygon=rule)
    sides = mixed_objects(1, kinds, ("polygon",))
    if rule == "hull":  # as the server does without being asked
        check(sides, ious_of(sides, as_polygon(rule)), raster_to_polygon=rule)


@pytest.mark.parametrize("seed", range(2))
def test_everything_becomes_a_box(seed: int) -> None:
    sides = mixed_objects(seed, EVERY, EVERY)
    check(sides, ious_of(sides, as_box), convert=AnnotationType.BOX)
    sides = mixed_objects(seed, EVERY, ("upright",))
    assert common_type(read(*sides)) is AnnotationType.BOX
    check(sides, ious_of(sides, as_box))


@pytest.mark.parametrize("turned", ["predictions", "groundtruths"])
@pytest.mark.parametrize("others", [("polygon",), ("upright", "raster"), EVERY])
def test_turned_boxes_meet_polygons_and_rasters_as_they_are(turned: str, others: tuple[str, ...]) -> None:
    kinds = [others, ("upright", "turned")]
    sides = mixed_objects(3, *(kinds if turned == "groundtruths" else kinds[::-1]))
    assert common_type(read(*sides)) is AnnotationType.POLYGON
    check(sides, ious_of(sides))
    assert common_type(read(*sides), turned=False) is AnnotationType.BOX


def test_a_turned_box_equals_the_polygon_of_its_corners() -> None:
    corners = [[(0, 5), (5, 0), (10, 5), (5, 10), (0, 5)]]
    truth, found = (annotated(**{name: kind(corners)}) for name, kind in (("polygon", Polygon), ("bounding_box", Box)))
    sides = [GroundTruth(Datum("a"), [truth])], [Prediction(Datum("a"), [found])]
    assert check(sides, {(0, 0): 1.0}) is None
    assert find_overlaps(read(*sides), raster_to_polygon="hull").overlaps.ious.tolist() == [0.5]


def test_rasters_are_compared_by_pixels() -> None:
    sides = mixed_objects(5, ("raster",), ("raster",))
    check(sides, ious_of(sides), convert=AnnotationType.RASTER)


def annotated(**fields: Any) -> Annotation:
    return Annotation(labels=[Label("k", "v", 0.5)], is_instance=True, **fields)


SQUARE = Box.from_extrema(1, 5, 1, 5)
CORNER = Polygon([[(1, 1), (5, 1), (1, 5), (1, 1)]])
FULL, EMPTY = Raster(np.ones(SIZE, bool)), Raster(np.zeros(SIZE, bool))


def pair(prediction: Annotation, groundtruth: Annotation) -> Columns:
    other = annotated(bounding_box=SQUARE)
    return read([GroundTruth(Datum("x"), [groundtruth])], [Prediction(Datum("x"), [other, prediction])])


@pytest.mark.parametrize(
    ("convert", "iou"),
    [(None, 16 / 168), (AnnotationType.BOX, 1 / 2), (AnnotationType.POLYGON, 1 / 8), (AnnotationType.RASTER, 16 / 168)],
)
def test_an_annotation_of_several_geometries_has_the_one_that_is_asked_for(
    convert: AnnotationType | None, iou: float
) -> None:
    rich = annotated(bounding_box=SQUARE, polygon=CORNER, raster=FULL)
    half, small = Box.from_extrema(1, 5, 1, 3), Box.from_extrema(1, 2, 1, 2)
    other = annotated(bounding_box=half, polygon=small, raster=Raster(to_raster(SQUARE.value, SIZE)))
    columns = read([GroundTruth(Datum("x"), [rich])], [Prediction(Datum("x"), [other])])
    assert find_overlaps(columns, convert=convert).overlaps.ious.tolist() == [iou]


@pytest.mark.parametrize(
    ("fields", "choices", "message"),
    [
        ({"bounding_box": SQUARE}, {"convert": AnnotationType.POLYGON},
         "predictions annotation 0 of datum 'x' must have a polygon or a raster for convert_annotations_to_type="
         "'polygon' but has a bounding_box"),
        ({"polygon": CORNER}, {"convert": AnnotationType.RASTER}, "must have a raster for convert_annotations_to_type"),
        ({"raster": EMPTY}, {"convert": AnnotationType.BOX},
         "predictions annotation 1 of datum 'x': its raster must have at least one pixel set for a box"),
        ({"raster": FULL, "far": Box.from_extrema(0, 1e9, 0, 1)}, {},
         "predictions annotation 2 of datum 'x' must have coordinates from -2e8 to 2e8 to be compared with a raster"),
        ({"raster": FULL}, {"raster_to_polygon": "convex"}, "raster_to_polygon must be one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_by_name(
    fields: dict[str, Any], choices: dict[str, Any], message: str
) -> None:
    fields = dict(fields)
    far = fields.pop("far", None)
    groundtruths = [GroundTruth(Datum("x"), [annotated(raster=FULL)])]
    predictions = [annotated(bounding_box=SQUARE), annotated(**fields)]
    predictions += [] if far is None else [annotated(bounding_box=far)]
    with pytest.raises(InputError, match=message):
        find_overlaps(read(groundtruths, [Prediction(Datum("x"), predictions)]), **choices)


def test_an_empty_raster_overlaps_nothing() -> None:
    assert len(find_overlaps(pair(annotated(raster=EMPTY), annotated(raster=FULL))).overlaps.ious) == 1


def test_annotations_without_rows_matter_to_nobody() -> None:
    columns = pair(annotated(raster=EMPTY), annotated(bounding_box=SQUARE))
    rows = columns.predictions.take(np.array([True, False]))
    columns = replace(columns, predictions=rows)
    assert find_overlaps(columns, convert=AnnotationType.BOX).overlaps.ious.tolist() == [1.0]


GEOMETRY = cases.read("geometry_cases")


@pytest.mark.parametrize("name", GEOMETRY["inputs"]["iou_pairs"])
def test_recorded_pairs_have_the_iou_of_the_server(name: str) -> None:
    """valor_core ignores holes: its IoU of ``poly_with_hole`` is 1."""
    sides = [
        annotated(bounding_box=Box(given["rings"]))
        if given["kind"] == "box"
        else annotated(polygon=Polygon(given["rings"]))
        for given in GEOMETRY["inputs"]["iou_pairs"][name]
    ]
    columns = read(*([kind(Datum("x"), [side])] for kind, side in zip((GroundTruth, Prediction), sides)))
    (iou,) = find_overlaps(columns).overlaps.ious.tolist()
    server, core = (GEOMETRY["expected"][program]["iou"][name] for program in ("api", "core"))
    assert abs(iou - server) < 1e-9
    assert (abs(iou - core) < 1e-9) == (name != "poly_with_hole")
