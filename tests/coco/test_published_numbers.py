"""The numbers that the COCO API publishes for its own example, results/val2014_fake_eval_res.txt."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.coco.comparison import OURS, load, quietly
from tests.coco.comparison import run as evaluated

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
