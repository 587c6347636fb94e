"""Reads the files of tools/make_protocol_goldens.py."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parents[1] / "tests" / "data"


class Golden(NamedTuple):
    """What another package found: what it says about each scene, and arrays by name."""

    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


def golden(name: str) -> Golden:
    """The file ``name`` of tests/data."""
    with np.load(DATA / name) as file:
        arrays = dict(file)
    return Golden(json.loads(str(arrays.pop("about"))), arrays)


def real_masks() -> tuple[dict[str, Any], list[Any]]:
    """100 images of COCO val2014 with their masks, and the example masks that the COCO API brings for them."""
    names = ("instances_val2014_100_masks.json.gz", "instances_val2014_fakesegm100_results.json.gz")
    folder = DATA.parents[1] / "examples" / "data"
    dataset, results = (json.loads(gzip.decompress((folder / name).read_bytes())) for name in names)
    return dataset, results


def gzipped_json(name: str) -> Any:
    """The value in the file ``name`` of tests/data."""
    with gzip.open(DATA / name) as file:
        return json.load(file)
