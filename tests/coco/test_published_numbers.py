"""Numbers of others: those that the COCO API publishes for its example, and what faster-coco-eval finds.

The example is results/val2014_fake_eval_res.txt of the COCO API.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from testing.goldens import gzipped_json
from testing.lvis_scenes import random_masks
from testing.mask_api_cases import SEEDS, values_of
from tests.coco.comparison import OURS, load, quietly
from tests.coco.comparison import run as evaluated
from tests.coco.test_keypoints import keypoint_evaluator
from valor_gpu.coco import mask

GOLDEN = gzipped_json("masks_golden.json.gz")

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"

# AP of all sizes, at 0.5, at 0.75, of small, medium and large objects; AR of 1, 10 and 100 detections, and of sizes.
PUBLISHED = {
    "segm": [0.320, 0.562, 0.299, 0.387, 0.310, 0.327, 0.268, 0.415, 0.417, 0.469, 0.377, 0.381],
    "bbox": [0.505, 0.697, 0.573, 0.586, 0.519, 0.501, 0.387, 0.594, 0.595, 0.640, 0.566, 0.564],
}
RESULTS = {
    "segm": "instances_val2014_fakesegm100_results.json.gz",
    "bbox": "instances_val2014_fakebbox100_results.json",
}


def unpacked(name: str) -> object:
    content = (EXAMPLES / name).read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_the_example_of_the_coco_api(kind: str) -> None:
    truth = load(OURS, unpacked("instances_val2014_100_masks.json.gz"))
    found = quietly(truth.loadRes, unpacked(RESULTS[kind]))[0]
    stats = evaluated(OURS.COCOeval(truth, found, kind)).e.stats
    assert [round(float(value), 3) for value in stats] == PUBLISHED[kind]


def test_the_file_of_faster_coco_eval_says_what_made_it() -> None:
    assert GOLDEN["note"].endswith("made by tools/make_protocol_goldens.py with faster-coco-eval 1.8.0")
    assert (len(GOLDEN["masks"]), len(GOLDEN["bbox"]), len(GOLDEN["segm"])) == (SEEDS, 12, 12)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_masks_are_those_of_faster_coco_eval(seed: int) -> None:
    assert values_of(mask, seed) == GOLDEN["masks"][seed]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_average_precision_is_that_of_faster_coco_eval(kind: str, seed: int) -> None:
    stats = evaluated(keypoint_evaluator(OURS, random_masks(seed), kind)).e.stats
    np.testing.assert_allclose(stats, GOLDEN[kind][seed], rtol=0, atol=1e-14)
