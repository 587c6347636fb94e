"""Writes what lvis-api, xtcocotools and faster-coco-eval find in synthetic scenes, which the test suite compares with.

The suite needs none of the three. To make the files again, in an environment of their own (Python 3.11, numpy 2.4):

    python -m venv oracles
    oracles/bin/pip install numpy pycocotools Cython "setuptools<80" wheel
    oracles/bin/pip install lvis==0.5.3 opencv-python-headless faster-coco-eval==1.8.0
    oracles/bin/pip install --no-binary xtcocotools --no-build-isolation xtcocotools==1.14.3
    oracles/bin/python -m tools.make_protocol_goldens lvis crowdpose boundary sigmas masks

lvis 0.5.3 uses ``numpy.float``, which is gone: it is set here. xtcocotools' wheel is built for numpy 1: it must be
compiled. Every detection is synthetic (testing/lvis_scenes.py, testing/keypoint_scenes.py); the ground truths of
``real`` are 100 images of LVIS v0.5.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from testing.digests import digest
from testing.goldens import real_masks
from testing.keypoint_scenes import common_rules, random_keypoints, random_sigmas
from testing.lvis_scenes import detections_on, random_lvis, random_masks
from testing.mask_api_cases import SEEDS, values_of

DATA = Path(__file__).parents[1] / "tests" / "data"
NOTE = "synthetic detections; made by tools/make_protocol_goldens.py with "
SCENES = 24
LIMITED = 4
"""Detections of an image that are kept in every third scene of LVIS."""


def main() -> None:
    """Writes the files that the command line names."""
    for name in sys.argv[1:]:
        MAKERS[name]()


@contextlib.contextmanager
def json_file(value: Any) -> Iterator[str]:
    """The path of a file that holds a value."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(value, file)
        file.flush()
        yield file.name


def write(name: str, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """One compressed file: arrays by name, and ``about`` as JSON text."""
    path = DATA / name
    parts: dict[str, Any] = {"about": np.array(json.dumps(about)), **arrays}
    np.savez_compressed(path, **parts)
    print(path, path.stat().st_size)


def lvis_real() -> dict[str, Any]:
    """The real ground truths."""
    with gzip.open(DATA / "lvis_val_100.json.gz") as file:
        return dict(json.load(file))


def make_lvis() -> None:
    """Arrays of lvis-api for random scenes, fingerprints for the real ground truths."""
    np.float = float  # type: ignore[attr-defined]
    about: dict[str, Any] = {"note": NOTE + "lvis 0.5.3", "scenes": {}}
    arrays: dict[str, np.ndarray] = {}
    for kind in ("bbox", "segm"):
        for seed in range(SCENES):
            objects = random_lvis(seed, kind == "segm")
            e = run_lvis(*objects, kind, LIMITED if seed % 3 == 0 else 300)
            name = f"{kind}_{seed}"
            about["scenes"][name] = {**summary_of(e), "objects": digest(objects)}
            arrays |= {f"{name}_{array}": e.eval[array] for array in ("precision", "recall")}
        dataset = lvis_real()
        results = detections_on(dataset, 0, kind == "segm")
        e = run_lvis(dataset, results, kind, 300)
        sums = {array: digest(e.eval[array]) for array in ("precision", "recall")}
        about["scenes"][f"{kind}_real"] = {**summary_of(e), "objects": digest(results), **sums}
    write("lvis_golden.npz", about, arrays)


def run_lvis(dataset: Any, results: Any, kind: str, limit: int) -> Any:
    """lvis-api's evaluator after its run."""
    from lvis import LVIS, LVISEval, LVISResults  # type: ignore[import-not-found]

    with json_file(dataset) as path, json_file(results) as found:
        ground_truth = LVIS(path)
        e = LVISEval(ground_truth, LVISResults(ground_truth, found, limit), kind)
    e.run()
    return e


def summary_of(e: Any) -> dict[str, Any]:
    """Numbers, text and the fingerprint of the cells of a run."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        e.print_results()
    return {
        "results": {name: float(value) for name, value in e.results.items()},
        "text": text.getvalue(),
        "eval_imgs": digest(e.eval_imgs),
        "dt_pointers": digest(e.eval["dt_pointers"]),
    }


CROWD_SIGMAS = np.array([0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89, 0.89, 0.79, 0.79]) / 10.0


def make_crowdpose() -> None:
    """Arrays of xtcocotools for random scenes in the style of CrowdPose."""
    about: dict[str, Any] = {"note": NOTE + "xtcocotools 1.14.3", "scenes": {}}
    arrays: dict[str, np.ndarray] = {}
    for seed in range(SCENES):
        objects = random_keypoints(seed, 14, crowdpose=True)
        e, text, whole = run_xtcocotools(objects, "keypoints_crowd", CROWD_SIGMAS, use_area=False)
        arrays |= {f"{seed}_{array}": whole[array] for array in ("precision", "recall", "scores")}
        about["scenes"][seed] = {"stats": e.stats.tolist(), "text": text, "objects": digest(objects)}
    write("crowdpose_golden.npz", about, arrays)


def run_xtcocotools(objects: Any, *choices: Any, **options: Any) -> tuple[Any, str, dict[str, Any]]:
    """The evaluator of xtcocotools after its summary, the text of that, and the arrays of all images."""
    from xtcocotools.coco import COCO  # type: ignore[import-not-found]
    from xtcocotools.cocoeval import COCOeval  # type: ignore[import-not-found]

    text = io.StringIO()
    with json_file(objects[0]) as path, json_file(objects[1]) as found:
        with contextlib.redirect_stdout(io.StringIO()):
            ground_truth = COCO(path)
            detections = ground_truth.loadRes(found)
            e = COCOeval(ground_truth, detections, *choices, **options)
            e.evaluate()
            e.accumulate()
        whole = e.eval  # the summary of CrowdPose evaluates parts of the images with the same object
        with contextlib.redirect_stdout(text):
            e.summarize()
    return e, text.getvalue(), whole


SIGMA_SCENES = {5: 4, 21: 4, 68: 4, 133: 3, 294: 3, 478: 2, 1000: 2}
"""Scenes for each number of keypoints."""


def make_sigmas() -> None:
    """Fingerprints of what xtcocotools leaves for keypoints with tolerances of their own."""
    scenes: dict[str, Any] = {}
    for joints, seeds in SIGMA_SCENES.items():
        for seed in range(seeds):
            objects, sigmas = common_rules(random_keypoints(seed, joints, classes=2)), random_sigmas(joints)
            e, _, whole = run_xtcocotools(objects, "keypoints", sigmas, use_area=True)
            arrays = {name: digest(whole[name]) for name in ("precision", "recall", "scores")}
            about = {"stats": list(map(float, e.stats)), "objects": digest((objects, sigmas)), "arrays": arrays}
            scenes[f"{joints}_{seed}"] = about
    write("sigmas_golden.npz", {"note": NOTE + "xtcocotools 1.14.3", "scenes": scenes}, {})


def make_boundary() -> None:
    """Arrays of faster-coco-eval for masks and their boundaries."""
    about: dict[str, Any] = {"note": NOTE + "faster-coco-eval 1.8.0", "scenes": {}}
    arrays: dict[str, np.ndarray] = {}
    for seed in range(SCENES // 2):
        e = run_boundary(*random_masks(seed))  # which changes what it gets
        arrays |= {f"{seed}_{array}": e.eval[array] for array in ("precision", "recall")}
        about["scenes"][seed] = {"stats": list(map(float, e.stats[:12])), "objects": digest(random_masks(seed))}
    e = run_boundary(*real_masks())
    about["scenes"]["real"] = {"stats": list(map(float, e.stats[:12])), "objects": digest(real_masks())}
    write("boundary_golden.npz", about, arrays)


def make_masks() -> None:
    """What faster-coco-eval's functions of masks give, and its numbers of boxes and masks, as JSON."""
    import faster_coco_eval.core.mask as api  # type: ignore[import-not-found]

    found: dict[str, Any] = {"note": NOTE + "faster-coco-eval 1.8.0"}
    found["masks"] = [values_of(api, seed) for seed in range(SEEDS)]
    for kind in ("bbox", "segm"):
        runs = (run_boundary(*random_masks(seed), kind) for seed in range(SCENES // 2))
        found[kind] = [list(map(float, e.stats[:12])) for e in runs]
    path = DATA / "masks_golden.json.gz"
    path.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
    print(path, path.stat().st_size)


def run_boundary(dataset: Any, results: Any, kind: str = "boundary") -> Any:
    """The evaluator of faster-coco-eval after its summary; of boundaries, by Python's masks and OpenCV's erosion."""
    from faster_coco_eval import COCO, COCOeval_faster  # type: ignore[import-not-found]

    with json_file(dataset) as path, contextlib.redirect_stdout(io.StringIO()):
        ground_truth = COCO(path)
        e = COCOeval_faster(ground_truth, ground_truth.loadRes(results), kind, print_function=lambda *a: None)
        e.evaluate()
        e.accumulate()
        e.summarize()
    return e


MAKERS = {
    "lvis": make_lvis,
    "crowdpose": make_crowdpose,
    "boundary": make_boundary,
    "sigmas": make_sigmas,
    "masks": make_masks,
}

if __name__ == "__main__":
    main()
