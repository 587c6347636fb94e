"""Average precision in a memory of a fixed size, from shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.offline.shard_data import coco
from valor_gpu.offline import OfflineConfig, run_offline
from valor_gpu.offline.records import Counted, StateFolder, dump_states, inflated, parse_states


def binned(folder: Path, parts: int) -> dict[str, Any]:
    config = coco(folder, parts)
    first = next(iter(config["metrics"].values()))
    labels = list(range(1, 91))
    config["metrics"] = {
        "exact": dict(first),
        "binned": {"class": "detection.BinnedMeanAveragePrecision", "classes": labels, "box_format": "xywh"},
    }
    return config


def test_shards_of_binned_detections(tmp_path: Path) -> None:
    found = []
    for parts in (1, 3):
        folder = tmp_path / str(parts)
        folder.mkdir()
        config = binned(folder, parts)
        result = run_offline(config)
        assert result is not None
        values, exact = result.results["binned"].values, result.results["exact"].values
        for name, bound in values["error_bound"].items():
            assert abs(values[name] - exact[name]) <= bound + 1e-12
        assert values["mar_100"] == pytest.approx(exact["mar_100"], abs=1e-12)
        states = StateFolder.of(OfflineConfig.from_dict(config)).path.glob("*.state")
        assert all(path.stat().st_size < 4_000_000 for path in states)
        found.append(str(result.results["binned"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 70_000, 5_000_000])
def test_states_come_back_as_they_were(size: int) -> None:
    rng = np.random.default_rng(size)
    states = {
        "random": rng.bytes(size),
        "zeros": bytes(size),
        "sparse": (rng.random(size) < 0.01).astype(np.uint8).tobytes(),
        "half": bytes(size // 2) + rng.bytes(size - size // 2),
    }
    counted, back = parse_states(dump_states("a", Counted(3), states), "a")
    assert counted == Counted(3) and {name: bytes(inflated(*part)) for name, part in back.items()} == states
