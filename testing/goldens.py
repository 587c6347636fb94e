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


def gzipped_json(name: str) -> Any:
    """The value in the file ``name`` of tests/data."""
    with gzip.open(DATA / name) as file:
        return json.load(file)
