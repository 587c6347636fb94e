"""Where an evaluation is computed: the torch ops give what numpy and the C++ library give, and serve without it."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from tests.coco.comparison import OURS, evaluator, quietly, random_objects, run, same, same_runs
from tests.coco.test_evaluator import SETTINGS
from valor_gpu import native
from valor_gpu.coco.engine import NumpyEngine, engine_on
from valor_gpu.coco.torch_engine import TorchEngine
from valor_gpu.errors import InputError

REJECTED = ("thresholds 0, 1 and above", "recall outside 0 to 1")
"""Settings that the corrected convention does not take."""
needs_library = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))


@needs_library
def test_engine_of_a_device() -> None:
    for device in (None, "cpu", "cpu:0", torch.device("cpu")):
        assert isinstance(engine_on(device), NumpyEngine)
    with pytest.raises(InputError, match="device must be cpu, cuda or cuda:N but got 'tpu'"):
        engine_on("tpu")
    with pytest.raises(InputError, match=r"device must be cpu, cuda or cuda:N but got 3\.5"):
        engine_on(3.5)


@needs_library
@pytest.mark.parametrize(
    ("name", "convention"),
    [
        (name, convention)
        for name in SETTINGS
        for convention in ("strict", "corrected")
        if convention == "strict" or name not in REJECTED
    ],
)
def test_torch_gives_what_numpy_gives(
    name: str, convention: str, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    objects = random_objects(23)
    known = {"imgIds": [image["id"] for image in objects[0]["images"]][:2]} if name == "images" else SETTINGS[name]
    summarize = convention == "strict" and "catIds" not in known
    choices = known if convention == "strict" or "catIds" not in known else {"catIds": [7, 1]}
    numpy = run(evaluator(OURS, objects, convention=convention), summarize, **choices)
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(device))
    torches = run(evaluator(OURS, objects, convention=convention), summarize, **choices)
    assert isinstance(torches.e._records.engine, TorchEngine)
    assert torches.text == numpy.text
    for name_of_array in ("precision", "recall", "scores"):
        same(numpy[name_of_array], torches[name_of_array])
    found, expected = torches.e.result().to_dict(), numpy.e.result().to_dict()
    assert found.pop("provenance") != expected.pop("provenance") and found == expected


@needs_library
def test_cells_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = random_objects(24)
    numpy = run(evaluator(OURS, objects))
    same_runs(numpy, copy.deepcopy(numpy))
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(torch.device("cpu")))
    torches = run(evaluator(OURS, objects))
    same_runs(numpy, torches)
    quietly(torches.e.accumulate)  # what evalImgs, now seen, holds
    same(numpy["precision"], torches["precision"])


@needs_library
def test_errors_name_the_annotation_on_every_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = random_objects(25)
    objects[1][3]["bbox"][2] = float("nan")
    for engine in (NumpyEngine(), TorchEngine(torch.device("cpu"))):
        monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda engine=engine: engine)
        with pytest.raises(InputError, match=r"results\[3\].bbox \(id 4\) must be finite but got \["):
            quietly(evaluator(OURS, objects).evaluate)


def test_an_evaluator_can_be_pickled_and_used_on() -> None:
    e = run(evaluator(OURS, random_objects(26))).e
    again = pickle.loads(pickle.dumps(e))
    quietly(again.accumulate)
    assert np.array_equal(again.eval["precision"], e.eval["precision"])


_WITHOUT_LIBRARY = """
import json, sys, warnings
from valor_gpu import native
native._load = lambda name: (None, f"lib{name}.so was not built")
warnings.simplefilter("always")
from valor_gpu.coco import COCO, COCOeval
with warnings.catch_warnings(record=True) as caught:
    truth = COCO(sys.argv[1])
    e = COCOeval(truth, truth.loadRes(sys.argv[2]), "bbox")
    e.evaluate()
    e.accumulate()
    e.summarize()
    e.ious, e.evalImgs
said = [str(w.message) for w in caught if "libvalor_cpu" in str(w.message)]
print(json.dumps([said, "torch" in sys.modules, list(e.stats), [v is not None and v["dtIds"] for v in e.evalImgs]]))
"""


def test_without_the_library_it_says_so_once_and_uses_torch(tmp_path: Any) -> None:
    objects = random_objects(27, images=3, most=6)
    paths = [str(tmp_path / name) for name in ("gt.json", "dt.json")]
    for path, value in zip(paths, objects):
        with open(path, "w") as file:
            json.dump(value, file)
    command = [sys.executable, "-W", "ignore", "-c", _WITHOUT_LIBRARY, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said, has_torch, stats, ids = json.loads(done.stdout.splitlines()[-1])
    assert len(said) == 1
    assert "libvalor_cpu.so was not built; its plain Python definitions serve, slowly: with a C++17" in said[0]
    assert has_torch
    expected = run(evaluator(OURS, objects)).e
    assert stats == expected.stats.tolist()
    assert ids == [cell is not None and cell["dtIds"] for cell in expected.evalImgs]
