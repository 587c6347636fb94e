"""``valor-gpu detect`` of masks, boundaries, rotated boxes, keypoints, LVIS and CrowdPose."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.keypoint_scenes import random_keypoints, random_sigmas
from testing.lvis_scenes import random_lvis
from tests.coco.comparison import ids_untold
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.coco import COCO, COCOeval, LVISEval
from valor_gpu.coco.outcomes import FN, FP, LEFT_OUT, outcomes

DATA = Path(__file__).parent.parent / "examples/data"
MASKS = [
    str(DATA / name)
    for name in ("instances_val2014_100_masks.json.gz", "instances_val2014_fakesegm100_results.json.gz")
]
BOXES = {
    "images": [{"id": 1, "height": 20, "width": 20}],
    "categories": [{"id": 3, "name": "cat"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 10, 10], "area": 100, "iscrowd": 0}],
}
FOUND = [{"image_id": 1, "category_id": 3, "bbox": [0, 0, 10, 9], "score": 0.9}]

Saved = Callable[[tuple[Any, Any]], list[str]]


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """Writes a dataset and results; returns their paths."""

    def write(objects: tuple[Any, Any]) -> list[str]:
        paths = [tmp_path / "gt.json", tmp_path / "dt.json"]
        for path, value in zip(paths, objects):
            path.write_text(json.dumps(value))
        return list(map(str, paths))

    return write


def detect(files: list[str], *options: str) -> int:
    return main(["detect", "--gt", files[0], "--dt", files[1], *options])


def evaluator(files: list[str], kind: str, sigmas: list[float] | None = None) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(files[0])
        found = COCOeval(truth, truth.loadRes(files[1]), kind)
        if sigmas is not None:
            found.params.kpt_oks_sigmas = sigmas
        with ids_untold():
            found.evaluate()
        found.accumulate()
        found.summarize()
    return found


def check_report(text: str, lines: str, *choices: str) -> None:
    """The report begins with these lines and ends with a signature of these choices."""
    assert text.startswith(lines + "\n\n")
    assert set(choices) <= set(text.splitlines()[-1].split("|"))


@pytest.mark.parametrize("kind", ["segm", "boundary"])
def test_masks(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out.json"
    expected = evaluator(MASKS, kind)
    assert detect(MASKS, "--iou-type", kind) == OK
    check_report(capsys.readouterr().out, str(expected), f"iou_type:{kind}", "convention:strict")
    assert detect(MASKS, "--iou-type", kind, "--json", str(out), "--quiet") == OK
    written = json.loads(out.read_text())
    assert [written["values"][name] for name in ("map", "map_small", "mar_100")] == expected.stats[[0, 3, 8]].tolist()
    assert written["signature"]["iou_type"] == kind and "protocol" not in written["signature"]


def test_keypoints(capsys: pytest.CaptureFixture[str], saved: Saved) -> None:
    files = saved(random_keypoints(4))
    expected = evaluator(files, "keypoints")
    assert detect(files, "--iou-type", "keypoints") == OK
    text = capsys.readouterr().out
    check_report(text, str(expected), "iou_type:keypoints", "max_detection_thresholds:20")
    ignored = sum(a["iscrowd"] or not a["num_keypoints"] for a in expected.cocoGt.dataset["annotations"])
    assert ignored and f"({ignored} of them crowds or without keypoints)" in text


@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_people_without_keypoints_do_not_hide_that_sigmas_are_missing(
    capsys: pytest.CaptureFixture[str], saved: Saved, convention: str
) -> None:
    truth, found = random_keypoints(4, 5)
    truth["annotations"][0] |= {"keypoints": [], "num_keypoints": 0}
    if convention == "corrected":
        del truth["annotations"][-1]["num_keypoints"]
    assert detect(saved((truth, found)), "--iou-type", "keypoints", "--convention", convention) == BAD_INPUT
    assert "--sigmas must be one number for each of the 5 keypoints of " in capsys.readouterr().err


def test_keypoints_with_tolerances_of_their_own(capsys: pytest.CaptureFixture[str], saved: Saved) -> None:
    files = saved(random_keypoints(4, 5))
    evaluation = evaluator(files, "keypoints", [0.1, 0.2, 0.05, 0.3, 1.0])
    assert detect(files, "--iou-type", "keypoints", "--sigmas", "0.1,.2,0.05,0.3,1") == OK
    check_report(capsys.readouterr().out, str(evaluation), "sigmas:0.1,0.2,0.05,0.3,1.0")
    assert detect(files, "--iou-type", "keypoints") == BAD_INPUT
    assert "--sigmas must be one number for each of the 5 keypoints of " in capsys.readouterr().err
    assert detect(files, "--sigmas", "0.1") == BAD_INPUT
    assert "--sigmas must go with --iou-type keypoints but got bbox" in capsys.readouterr().err
    for wrong in ("0.1,,2", "0", "1,-1", "nan", "1e999", "a"):
        with pytest.raises(SystemExit, match="2"):
            detect(files, "--iou-type", "keypoints", "--sigmas", wrong)
        assert "argument --sigmas: must be " in capsys.readouterr().err


def test_more_keypoints_than_a_person_has(capsys: pytest.CaptureFixture[str], saved: Saved) -> None:
    sigmas = random_sigmas(294).tolist()  # as many as the garments of DeepFashion2 have
    files = saved(random_keypoints(3, 294))
    assert detect(files, "--iou-type", "keypoints", "--sigmas", ",".join(map(str, sigmas))) == OK
    check_report(capsys.readouterr().out, str(evaluator(files, "keypoints", sigmas)), "iou_type:keypoints")


def test_rotated_boxes(capsys: pytest.CaptureFixture[str], saved: Saved) -> None:
    box = [50.0, 40.0, 20.0, 10.0, 30.0]
    truth = {**BOXES, "annotations": [{**BOXES["annotations"][0], "bbox": box}]}
    files = saved((truth, [{**FOUND[0], "bbox": [50, 40, 20, 10, 35]}]))
    expected = evaluator(files, "rotated")
    assert detect(files, "--iou-type", "rotated") == OK
    check_report(capsys.readouterr().out, str(expected), "iou_type:rotated", "convention:strict")
    assert detect(files) == BAD_INPUT
    assert "annotations[0].bbox must be 4 numbers [x, y, width, height] but got [50.0, " in capsys.readouterr().err


def test_crowdpose(capsys: pytest.CaptureFixture[str], saved: Saved, tmp_path: Path) -> None:
    files, out = saved(random_keypoints(2, 14, crowdpose=True)), tmp_path / "out.json"
    expected = evaluator(files, "keypoints_crowd")
    assert detect(files, "--protocol", "crowdpose", "--json", str(out)) == OK
    text = capsys.readouterr().out.removesuffix(f"wrote {out}\n")
    check_report(text, str(expected), "iou_type:keypoints", "protocol:crowdpose")
    values = json.loads(out.read_text())["values"]
    crowding = [values[f"map_crowding_{name}"] for name in ("easy", "medium", "hard")]
    assert [-1.0 if v is None else v for v in crowding] == expected.stats[6:].tolist()
    assert values["map"] == expected.stats[0]


@pytest.mark.parametrize("kind", ["bbox", "segm"])
@pytest.mark.parametrize("seed", range(8))
def test_errors_of_lvis_are_those_of_its_cells(saved: Saved, seed: int, kind: str) -> None:
    """At IoU 0.5, in the range of all areas: right, wrong and missed as the evaluator itself has them."""
    evaluation = LVISEval(*saved(random_lvis(seed, kind == "segm")), kind)
    with ids_untold():
        evaluation.run()
    found = outcomes(evaluation)
    cells = [cell for cell in evaluation.eval_imgs if cell and cell["area_rng"] == evaluation.params.area_rng[0]]

    def count(matches: str, ignore: str, is_match: bool) -> int:
        chosen = [np.atleast_2d(cell[ignore])[0] == 0 for cell in cells]
        return sum(int(((cell[matches][0] != 0) == is_match)[kept].sum()) for cell, kept in zip(cells, chosen))

    assert int((found.detections == FP).sum()) == count("dt_matches", "dt_ignore", False)
    assert int((found.ground_truths == FN).sum()) >= count("gt_matches", "gt_ignore", False)  # ids of 0 are no match
    unflagged = int((found.ground_truths != LEFT_OUT).sum())
    assert unflagged == sum(int((np.asarray(cell["gt_ignore"]) == 0).sum()) for cell in cells)


def test_pictures_of_lvis(capsys: pytest.CaptureFixture[str], saved: Saved, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    files = saved(random_lvis(3))
    assert detect(files, "--protocol", "lvis", "--overlay", str(tmp_path / "worst"), "--overlay-count", "2") == OK
    drawn = sorted((tmp_path / "worst").glob("*.png"))
    assert len(drawn) == 2 and all(f"wrote {path}" in capsys.readouterr().out for path in drawn[:1])


@pytest.mark.parametrize(("seed", "kind"), [(1, "bbox"), (3, "bbox"), (4, "segm")])
def test_lvis(capsys: pytest.CaptureFixture[str], saved: Saved, tmp_path: Path, seed: int, kind: str) -> None:
    files, out = saved(random_lvis(seed, kind == "segm")), tmp_path / "out.json"
    expected = LVISEval(files[0], files[1], kind)
    with ids_untold():
        expected.run()
    with contextlib.redirect_stdout(io.StringIO()) as lines:
        expected.print_results()
    assert detect(files, "--protocol", "lvis", "--iou-type", kind, "--per-class", "--json", str(out)) == OK
    text = capsys.readouterr().out.removesuffix(f"wrote {out}\n")
    check_report(
        text, lines.getvalue().rstrip("\n"), f"iou_type:{kind}", "protocol:lvis", "max_detection_thresholds:300"
    )
    written = json.loads(out.read_text())
    names = {"map": "AP", "map_75": "AP75", "map_large": "APl", "map_rare": "APr", "map_frequent": "APf",
             "mar_300": "AR@300", "mar_small": "ARs@300"}  # fmt: skip
    found = {name: -1.0 if written["values"][name] is None else written["values"][name] for name in names}
    assert found == {name: expected.results[theirs] for name, theirs in names.items()}
    counts = written["counts"]
    parts = ("detections", "detections_beyond_limit", "detections_of_unknown_categories")
    taken = sum(counts[name] for name in (*parts, "detections_of_unsearched_categories"))
    assert taken == len(json.loads(Path(files[1]).read_text()))
    assert sorted(written["categories"].values()) == expected.params.cat_ids


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--iou-type", "segm"],
            r"annotations[0] must have segmentation but has only id, image_id, category_id, bbox,",
        ),
        (["--iou-type", "segm"], ": --iou-type segm needs segmentation"),
        (["--iou-type", "boundary"], ": --iou-type boundary needs segmentation"),
        (["--iou-type", "keypoints"], ": --iou-type keypoints needs keypoints"),
        (["--protocol", "lvis"], ": --protocol lvis needs frequency"),
        (["--protocol", "crowdpose"], ": --iou-type keypoints needs keypoints"),
        (["--protocol", "lvis", "--iou-type", "keypoints"], "--iou-type must be bbox or segm with --protocol lvis but"),
        (["--protocol", "crowdpose", "--iou-type", "bbox"], "--iou-type must be keypoints with --protocol crowdpose"),
        (["--protocol", "lvis", "--convention", "corrected"], ": --protocol lvis needs frequency"),
    ],
)
def test_what_the_data_lack_is_named_with_the_option(
    capsys: pytest.CaptureFixture[str], saved: Saved, options: list[str], message: str
) -> None:
    assert detect(saved((BOXES, FOUND)), *options) == BAD_INPUT
    assert message in capsys.readouterr().err


def test_an_error_of_values_does_not_blame_the_option(capsys: pytest.CaptureFixture[str], saved: Saved) -> None:
    truth, found = random_keypoints(4)
    found[0]["keypoints"] = found[0]["keypoints"][:6]
    assert detect(saved((truth, found)), "--iou-type", "keypoints") == BAD_INPUT
    error = capsys.readouterr().err
    assert "[0].keypoints must be 51 finite numbers" in error and "--iou-type" not in error


def test_crowd_indices_that_lack_are_named(capsys: pytest.CaptureFixture[str], saved: Saved) -> None:
    truth, found = random_keypoints(2, 14, crowdpose=True)
    del truth["images"][0]["crowdIndex"]
    assert detect(saved((truth, found)), "--protocol", "crowdpose") == BAD_INPUT
    assert "must be a number but got None: --protocol crowdpose needs crowdIndex" in capsys.readouterr().err


@pytest.mark.parametrize("protocol", ["coco", "lvis"])
def test_masks_of_another_size_are_warned_of(
    capsys: pytest.CaptureFixture[str], saved: Saved, tmp_path: Path, protocol: str
) -> None:
    image = {**BOXES["images"][0], "neg_category_ids": [], "not_exhaustive_category_ids": []}
    full = {"segmentation": {"size": [20, 20], "counts": [0, 400]}}
    halves = {"segmentation": {"size": [10, 40], "counts": [0, 400]}, "score": 0.5}
    truth = {**BOXES, "images": [image], "categories": [{"id": 3, "name": "cat", "frequency": "f"}]}
    files = saved(({**truth, "annotations": [{**BOXES["annotations"][0], **full}]}, [{**FOUND[0], **halves}]))
    out = tmp_path / "out.json"
    assert detect(files, "--protocol", protocol, "--iou-type", "segm", "--quiet", "--json", str(out)) == OK
    warned = "1 of the detections has a mask of another size than a ground truth of the image: they never match"
    assert f"warning: {warned}\n" in capsys.readouterr().err
    assert json.loads(out.read_text())["counts"]["detections_of_other_size"] == 1


@pytest.mark.parametrize(
    ("options", "parts", "warning"),
    [
        (
            [],
            ("mask",),
            "boxes around masks are compared where detections have no box: is --iou-type segm meant?",
        ),
        (["--protocol", "lvis"], ("mask",), "boxes around masks are compared where detections have no box:"),
        (["--protocol", "lvis"], ("mask", "box"), "boxes are compared, but the detections have masks too: is --iou-ty"),
        (["--iou-type", "segm"], ("box",), "1 of the detections has no mask: boxes are compared as masks"),
        (
            ["--protocol", "lvis", "--iou-type", "segm"],
            ("box",),
            "1 of the detections has no mask: boxes are compared as masks",
        ),
        (["--protocol", "lvis", "--iou-type", "bbox"], ("mask",), None),
        (["--protocol", "lvis"], ("box",), None),
        ([], ("mask", "box"), None),
        (["--iou-type", "segm"], ("mask", "box"), None),
    ],
)
def test_what_is_compared_in_place_of_something_else_is_warned_of(
    capsys: pytest.CaptureFixture[str], saved: Saved, options: list[str], parts: tuple[str, ...], warning: str | None
) -> None:
    image = {**BOXES["images"][0], "neg_category_ids": [], "not_exhaustive_category_ids": []}
    mask = {"segmentation": {"size": [20, 20], "counts": [0, 400]}}
    truth = {**BOXES, "images": [image], "categories": [{"id": 3, "name": "cat", "frequency": "f"}]}
    found = {key: value for key, value in FOUND[0].items() if key != "bbox" or "box" in parts}
    found = {**found, **(mask if "mask" in parts else {})}
    assert detect(saved(({**truth, "annotations": [{**BOXES["annotations"][0], **mask}]}, [found])), *options) == OK
    shown = capsys.readouterr().err
    assert f"warning: {warning}" in shown if warning else shown == ""


@pytest.mark.parametrize(
    ("name", "meant"), [("mask", "segm"), ("Segmentation", "segm"), ("boxes", "bbox"), ("pose", "keypoints")]
)
def test_other_names_of_types_are_told_the_right_one(capsys: pytest.CaptureFixture[str], name: str, meant: str) -> None:
    with pytest.raises(SystemExit):
        detect(MASKS, "--iou-type", name)
    wanted = f"argument --iou-type: must be bbox, segm, boundary, rotated, keypoints but got {name}: {meant} is meant"
    assert wanted in " ".join(capsys.readouterr().err.split())
