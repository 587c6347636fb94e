"""Scenes of the benchmark of Valor's detection metrics are seeded, and our ways in agree with each other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import report, valor_cases, valor_detection
from benchmarks.baselines import OURS, Clock
from benchmarks.valor_baselines import FRAMES, TOOLS, read
from benchmarks.verify import RULES, Outcome, verdict

IMAGES = 12


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return valor_cases.cached("valor-20k", IMAGES, 0, tmp_path_factory.mktemp("bench_data"))


def outcome(path: str, name: str, scene: Path) -> Outcome:
    tool = next(tool for tool in TOOLS[path] if tool.name == name)
    return tool.start()(scene)(Clock())()


def test_scenes_are_seeded_and_hold_as_many_on_both_sides(tmp_path: Path) -> None:
    first, again, other = (
        valor_cases.load(valor_cases.cached("valor-20k", 200, seed, tmp_path / str(i)))
        for i, seed in enumerate((3, 3, 4))
    )
    assert np.array_equal(first.found.box, again.found.box) and not np.array_equal(first.found.score, other.found.score)
    assert (first.images, first.labels, len(first.found.image)) == (200, 80, 1464)
    assert 0.7 < len(first.true.image) / len(first.found.image) < 1.3
    for side in (first.true, first.found):
        assert (np.diff(side.image) >= 0).all() and (side.box[:, 2:] >= side.box[:, :2]).all()


def test_objects_frames_and_tensors_have_the_same_counts(scene: Path) -> None:
    objects, frames = (outcome("objects", name, scene) for name in (OURS, FRAMES))
    assert verdict(RULES["float64"], frames, objects, None).agrees and objects.digest
    assert 0.2 < objects.stats[0] < 0.9
    tensors = outcome("tensors", OURS, scene)
    labels = np.unique(np.concatenate([side.label for side in valor_cases.load(scene)[2:]])).size
    assert len(tensors.stats) == 1 + labels * (1 + 3 * 10 * 3)


def test_engines_agree_with_valor_lite(scene: Path) -> None:
    """Where it is installed; the benchmark installs it."""
    pytest.importorskip("valor_lite", reason="valor-lite is not installed")
    for path, tools in TOOLS.items():
        expected = outcome(path, tools[-1].name, scene)
        for tool in tools[:-1]:
            judged = verdict(RULES[tool.rule], outcome(path, tool.name, scene), expected, None)
            assert judged.agrees, (path, tool.name, judged.text)


def test_another_count_is_another_digest() -> None:
    def metrics(tp: int, empty: dict[str, Any]) -> list[dict[str, Any]]:
        place = {"label": "1", "label_key": "class"}
        counts = {"type": "Counts", "value": {"tp": tp, "fp": 0}, "parameters": place}
        return [counts, {"type": "ConfusionMatrix", "value": {"1": {"1": 2}, **empty}, "parameters": {}}]

    first = read(metrics(2, {}))
    assert first == read(metrics(2, {"2": {"1": 0}})) != read(metrics(3, {}))
    assert first.digest != read(metrics(2, {"2": {"1": 1}})).digest


def test_results_are_stored_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(path: str, tools: Any, plan: Any) -> dict[str, list[dict[str, Any]]]:
        return {tool.name: [{"missing": "not tried"}] for tool in tools}

    monkeypatch.setattr(valor_detection, "interleaved_runs", measured)
    arguments = argparse.Namespace(
        case="valor-20k", quick=True, data=tmp_path, threads=1, repeats=1, slow_repeats=1, seed=0
    )
    result = valor_detection.benchmark(arguments)
    assert {row["status"] for row in result["rows"]} == {"missing"} and "valor-lite" in result["versions"]
    text = report.TEXTS["valor_detection"]([result])
    assert text.count("| valor-lite | missing |") == 2 and FRAMES in text
