"""TIDE by COCOeval's rules: against evaluations of mended data, a loop, and hotcoco."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import numpy as np
import pytest

from testing.lvis_scenes import random_lvis
from testing.oracles import pycocotools
from tests.analysis.tide_cases import (
    Objects,
    Run,
    answers,
    evaluated,
    evaluated_lvis,
    few,
    random_data,
    val2014,
    yolact,
)
from tests.coco.test_rotated import objects_of
from tests.detection.test_rotated_mean_ap import random_scene
from valor_gpu.analysis.tide_kinds import DETECTION_KINDS, kinds_of
from valor_gpu.analysis.tide_mend import GAIN_NAMES
from valor_gpu.errors import InputError

CASES: dict[str, Any] = {
    "yolact": lambda: (*yolact(images=100), coco("bbox")),
    "val2014": lambda: (*val2014(), coco("bbox")),
    "masks": lambda: (*few(*val2014(masks=True), 40), coco("segm")),
    "boundary": lambda: (*few(*val2014(masks=True), 15), coco("boundary")),
    "rotated": lambda: (*objects_of(random_scene(3)), coco("rotated")),
    **{f"random {n}": lambda n=n: (*random_data(n, grid=n % 2 == 0), coco("bbox")) for n in range(8)},
    **{f"lvis {n}": lambda n=n: (*by_image(*random_lvis(n)), evaluated_lvis) for n in range(8)},
}


def by_image(truth: dict[str, Any], detections: Objects) -> tuple[dict[str, Any], Objects]:
    """Detections image after image, as LVISResults numbers them, and no ground truth with the id 0."""
    truth = {**truth, "annotations": [{**a, "id": a["id"] + 1} for a in truth["annotations"]]}
    images = list(dict.fromkeys(detection["image_id"] for detection in detections))
    return truth, sorted(detections, key=lambda detection: images.index(detection["image_id"]))


def coco(iou_type: str) -> Run:
    """Evaluates by COCOeval."""
    return functools.partial(evaluated, iou_type=iou_type)


HOTCOCO = {
    "Cls": "classification", "Loc": "localization", "Both": "both", "Dupe": "duplicate", "Bkg": "background",
    "Miss": "missed", "FP": "false_positives", "FN": "false_negatives",
}  # fmt: skip


class Mender:
    """Data of an evaluation, from which those with one kind of error mended are written anew."""

    def __init__(self, truth: dict[str, Any], detections: Objects, run: Run, iou: float) -> None:
        self.truth, self.run, self.iou = truth, run, iou
        analysis = run(truth, detections)._asked("errors", None)
        errors, matching, rows = kinds_of(analysis, iou), analysis.matching(iou), analysis.rows
        numbers = {row_id: n for n, row_id in enumerate(rows.detection_ids.tolist())}
        # COCOeval numbers results from 1 on, in their order.
        listed = [(detection, numbers.get(n)) for n, detection in enumerate(detections, 1)]
        self.detections = [(detection, row) for detection, row in listed if row is not None and rows.kept[row]]
        self.kinds, self.targets = errors.kinds, errors.targets
        self.ground_truth = dict(enumerate(rows.ground_truth_ids.tolist()))
        self.missed = {self.ground_truth[n] for n in np.flatnonzero(errors.missed)}
        self.unfound = {self.ground_truth[n] for n in np.flatnonzero(rows.gt_counts & ~matching.found)}
        self.false_positives = matching.false_positives
        best: dict[int, tuple[float, int]] = {}
        for detection, row in self.detections:
            about = self.ground_truth.get(self.targets[row]) if self.kinds[row] in (0, 1) else None
            if about in self.unfound and (about not in best or detection["score"] > best[about][0]):
                best[about] = (detection["score"], row)
        self.repaired = {row for _, row in best.values()}

    def mended(self, kind: str) -> tuple[dict[str, Any], Objects]:
        """The data with one kind mended."""
        removed = {"missed": self.missed, "false_negatives": self.unfound}.get(kind, set())
        annotations = [a for a in self.truth["annotations"] if a["id"] not in removed]
        # In LVIS an image stays searched for the class of a ground truth that is gone.
        images = [
            {**image, "neg_category_ids": sorted({*image["neg_category_ids"], *(
                a["category_id"] for a in self.truth["annotations"] if a["image_id"] == image["id"]
            )})} if "neg_category_ids" in image else image
            for image in self.truth["images"]
        ]  # fmt: skip
        return {**self.truth, "images": images, "annotations": annotations}, [
            mended for detection, row in self.detections for mended in self._detection(kind, detection, row)
        ]

    def _detection(self, kind: str, detection: dict[str, Any], row: int) -> Objects:
        own = DETECTION_KINDS[self.kinds[row]] if self.kinds[row] >= 0 else None
        if kind == "false_positives":
            return [] if self.false_positives[row] else [detection]
        if own != kind:
            return [detection]
        if row not in self.repaired:
            return []
        truth = next(a for a in self.truth["annotations"] if a["id"] == self.ground_truth[self.targets[row]])
        if kind == "classification":
            return [{**detection, "category_id": truth["category_id"]}]
        shape = {name: truth[name] for name in ("bbox", "segmentation") if name in detection}
        return [{**detection, **copy.deepcopy(shape)}]

    def ap(self, kind: str) -> tuple[float, dict[str, float]]:
        """AP of the mended data by a new evaluation, of all classes and of each."""
        values = self.run(*self.mended(kind), limit=10**5, iou=self.iou).values
        return values["map"], dict(values["map_per_class"])


def same(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


@pytest.mark.parametrize("iou", [0.5, 0.75])
@pytest.mark.parametrize("name", CASES)
def test_gains_are_those_of_evaluations_of_mended_data_to_the_last_bit(name, iou):
    truth, detections, run = CASES[name]()
    result = run(truth, detections)
    errors = result.errors(iou)
    assert errors.values["ap"] == result.values["map_50" if iou == 0.5 else "map_75"]
    per_class = result.values["map_50_per_class" if iou == 0.5 else "map_75_per_class"]
    assert all(same(ap, per_class[name]) for name, ap in errors.values["ap_per_class"].items())
    mender = Mender(truth, detections, run, iou)
    for kind in GAIN_NAMES:
        ap, of_classes = mender.ap(kind)
        assert same(errors.values["gains"][kind], ap - errors.values["ap"]), kind
        for own, gain in errors.values["gains_per_class"][kind].items():
            assert same(gain, of_classes[own] - errors.values["ap_per_class"][own]), (kind, own)


def loop(truth: dict[str, Any], detections: Objects, iou: float, background: float) -> tuple[list[int], set[int]]:
    """Kinds of the detections in their order, and ids of missed ground truths, by the words of the definition."""
    kinds, missed, peer = {}, set(), pycocotools("mask")
    for image in truth["images"]:
        found = [(n, d) for n, d in enumerate(detections) if d["image_id"] == image["id"]]
        truths = [a for a in truth["annotations"] if a["image_id"] == image["id"]]
        found.sort(key=lambda pair: -pair[1]["score"])
        ious = peer.iou([d["bbox"] for _, d in found], [a["bbox"] for a in truths], [a["iscrowd"] for a in truths])
        taken: set[int] = set()
        free: list[int] = []
        for i, (n, detection) in enumerate(found):
            kinds[n] = -1
            own = [j for j, a in enumerate(truths) if a["category_id"] == detection["category_id"]]
            open_ = [j for j in own if not truths[j]["iscrowd"] and j not in taken and ious[i][j] >= iou]
            if open_:
                taken.add(max(open_, key=lambda j: (ious[i][j], j)))
            elif not any(truths[j]["iscrowd"] and ious[i][j] >= iou for j in own):
                free.append(i)
        usable = set()
        for i in free:
            n, detection = found[i]
            counting = [j for j, a in enumerate(truths) if not a["iscrowd"]]
            own = {j: ious[i][j] for j in counting if truths[j]["category_id"] == detection["category_id"]}
            other = {j: ious[i][j] for j in counting if j not in own}
            best, target = max(((v, j) for j, v in own.items()), default=(0, None))
            wrong, aside = max(((v, j) for j, v in other.items()), default=(0, None))
            if background <= best < iou:
                kinds[n], about = 1, target
            elif wrong >= iou:
                kinds[n], about = 0, aside
            else:
                kinds[n], about = 3 if best >= iou else 4 if max(best, wrong) <= background else 2, None
            usable |= {about}
        missed |= {a["id"] for j, a in enumerate(truths) if not a["iscrowd"] and j not in taken and j not in usable}
    return [kinds[n] for n in range(len(detections))], missed


@pytest.mark.parametrize("thresholds", [(0.5, 0.1), (0.75, 0.3), (1.0, 0.5), (0.25, 0.05)])
@pytest.mark.parametrize("seed", range(20))
def test_kinds_are_those_of_a_plain_loop(seed, thresholds):
    truth, detections = random_data(seed, images=6)
    analysis = evaluated(truth, detections)._asked("errors", None)
    errors, rows = kinds_of(analysis, *thresholds), analysis.rows
    kinds, missed = loop(truth, detections, *thresholds)
    ids = rows.detection_ids.tolist()
    assert dict(zip(ids, errors.kinds.tolist())) == dict(enumerate(kinds, 1))
    assert set(rows.ground_truth_ids[errors.missed].tolist()) == missed
    with_target = errors.targets >= 0
    assert (with_target == ((errors.kinds >= 0) & (errors.kinds != 4))).all()
    assert (np.isnan(errors.ious) == ~with_target).all()


@pytest.mark.parametrize("name", ["yolact", "yolact_crowds_dropped"])
def test_numbers_of_hotcoco_follow_from_those_of_classes(name):
    """It counts a class that a fix empties as 0; COCOeval of the mended data, and so ours, leaves it out."""
    truth, detections = yolact(crowds=name == "yolact", images=100)
    errors, golden = evaluated(truth, detections).errors(), answers("tide_hotcoco.json")[name]
    assert errors.values["ap"] == pytest.approx(golden["ap_base"], abs=1e-12)
    before = {own: ap for own, ap in errors.values["ap_per_class"].items() if not math.isnan(ap)}
    for short, gain in golden["delta_ap"].items():
        gains = errors.values["gains_per_class"][HOTCOCO[short]]
        after = [0.0 if math.isnan(gains[own]) else ap + gains[own] for own, ap in before.items()]
        assert np.mean(after) - np.mean(list(before.values())) == pytest.approx(gain, abs=1e-12), short
    assert {HOTCOCO[short]: n for short, n in golden["counts"].items()}.items() <= errors.counts.items()


def test_counts_are_whole():
    truth, detections = yolact(images=100)
    errors = evaluated(truth, detections).errors()
    counts = errors.counts
    assert sum(counts[kind] for kind in DETECTION_KINDS) == counts["false_positives"] == 3116
    assert counts["hits"] + counts["false_positives"] + counts["ignored"] == len(detections)
    assert counts["hits"] + counts["false_negatives"] == counts["ground_truths"] == 736
    assert counts["images"] == 100
    for kind, per_class in errors.values["counts_per_class"].items():
        assert sum(per_class.values()) == counts[kind], kind
    assert errors.values["counts_per_class"]["missed"]["person"] > 0


def test_duplicate_at_exactly_the_threshold_is_a_duplicate():
    box, half = [0, 0, 100, 100], [0, 0, 100, 50]
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "cat"}], "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "area": 1e4, "iscrowd": 0}]}  # fmt: skip
    found = [{"image_id": 1, "category_id": 1, "bbox": b, "score": s} for b, s in ((box, 0.9), (half, 0.8))]
    result = evaluated(truth, found)
    assert result.errors().counts["duplicate"] == 1 and result.errors().counts["localization"] == 0
    assert result.errors(protocol="tidecv").counts["localization"] == 1


def test_class_that_a_fix_empties_has_no_part_and_a_reason():
    box = [0, 0, 10, 10]
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}], "annotations": [
        {"id": n, "image_id": 1, "category_id": n, "bbox": box, "area": 100, "iscrowd": 0} for n in (1, 2)
    ]}  # fmt: skip
    errors = evaluated(truth, [{"image_id": 1, "category_id": 1, "bbox": box, "score": 0.5}]).errors()
    assert errors.values["ap"] == pytest.approx(0.5) and errors.values["gains"]["missed"] == pytest.approx(0.5)
    assert math.isnan(errors.values["gains_per_class"]["missed"]["dog"])
    assert errors.reason("gains_per_class/missed/dog").startswith("nothing of the class is left")
    far = evaluated(truth, [{"image_id": 1, "category_id": 1, "bbox": [50, 50, 5, 5], "score": 0.5}]).errors()
    assert math.isnan(far.values["gains"]["missed"])
    assert "no class of the mean is left once the errors are mended" in str(far)
    none = evaluated({**truth, "annotations": []}, [{"image_id": 1, "category_id": 1, "bbox": box, "score": 0.5}])
    assert none.errors().reason("ap") == "no ground truth counts for it"
    assert none.errors().counts["background"] == 1 and "nan" in str(none.errors())


def test_several_pairs_of_thresholds():
    truth, detections = yolact(images=100)
    result = evaluated(truth, detections)
    both = result.errors([0.5, 0.75])
    for iou in (0.5, 0.75):
        one = result.errors(iou)
        assert both.at(iou).to_dict() == one.to_dict()
        assert both.values[f"{iou:g}"]["counts"] == one.counts
        assert both.values[f"{iou:g}"]["gains"] == one.values["gains"]
    table = both.table()
    assert table["iou"] == [0.5] * 8 + [0.75] * 8 and table["kind"] == list(GAIN_NAMES) * 2
    assert sum(table["share"][:6]) == pytest.approx(1) and math.isnan(table["share"][6])
    assert table["count"][:6] == [result.errors().counts[kind] for kind in GAIN_NAMES[:6]]
    pairs = result.errors([0.5, 0.5], [0.1, 0.2])
    assert list(pairs.values) == ["0.5 over 0.1", "0.5 over 0.2"] and both.counts["ground_truths"] == 736
    with pytest.raises(InputError, match=r"iou must be one of 0.5 over 0.1, 0.5 over 0.2, once, but got 0.5"):
        pairs.at(0.5)


def test_text_is_a_table():
    truth, detections = yolact(images=100)
    lines = str(evaluated(truth, detections).errors()).splitlines()
    assert lines[0] == "AP 0.5908 at IoU 0.5, background up to 0.1"
    assert lines[2] == "classification        164  +0.0583   21.9%" and len(lines) == 12
    assert lines[10] == "images 100, ground_truths 736, hits 496, ignored 222"
    assert lines[11].startswith("metric:DetectionErrors|of:COCOeval|iou_type:bbox|")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"iou": 0.0}, "iou must be above 0 and at most 1 but got 0.0"),
        ({"iou": 1.5}, "iou must be .*1.5"),
        ({"background": 0.0}, "background must be above 0 and below iou, which is 0.5, but got 0.0"),
        ({"background": 0.5}, "background must be above 0 and below iou, which is 0.5, but got 0.5"),
        ({"protocol": "voc"}, "protocol must be one of 'coco', 'tidecv' but got 'voc'"),
        ({"iou": []}, "iou must hold at least one threshold but is empty"),
        ({"iou": [0.5, 0.5]}, "iou and background must name each pair of thresholds once but got 0.5, 0.5"),
        ({"iou": [0.5, 0.6], "background": [0.1]}, "iou and background must have one length but have 2 and 1"),
    ],
)
def test_wrong_thresholds_are_rejected(asked, message):
    result = evaluated(*random_data(0))
    with pytest.raises(InputError, match=message):
        result.errors(**asked)


def test_saved_results_keep_the_numbers_but_not_the_data(tmp_path):
    import pickle

    errors = evaluated(*random_data(1)).errors([0.5, 0.75])
    again = pickle.loads(pickle.dumps(errors))
    assert type(again) is type(errors) and str(again) == str(errors) and again.to_dict() == errors.to_dict()
    errors.save(tmp_path / "errors.json")
    loaded = type(errors).load(tmp_path / "errors.json")
    assert str(loaded) == str(errors) and loaded.at(0.75).values["ap"] == errors.at(0.75).values["ap"]
    assert not hasattr(errors, "errors")  # an answer is no result with data behind it


def test_picture_has_a_bar_for_each_kind():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib.figure import Figure

    errors = evaluated(*random_data(1)).errors([0.5, 0.75])
    axes = errors.at(0.5).plot(Figure().subplots(), source="somewhere")
    assert len(axes.patches) == 8 and axes.get_title(loc="left").startswith("Errors at IoU 0.5, AP 0.")
    with pytest.raises(InputError, match=r"plot needs one pair of thresholds but the result has 0.5, 0.75: use at\(\)"):
        errors.plot(Figure().subplots())


def test_html_and_pandas_have_every_gain():
    errors = evaluated(*random_data(1)).errors()
    assert "gains/classification" in errors._repr_html_()
    frame = errors.to_pandas()
    assert frame.loc[(frame["name"] == "gains"), "key"].tolist() == list(GAIN_NAMES)
