"""``valor-gpu detect --intervals``: text, JSON, clusters and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.test_cli import DT, GT
from valor_gpu.cli import BAD_INPUT, OK, main

FILES = ("detect", "--gt", str(GT), "--dt", str(DT))


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    status = main([*FILES, *options])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_text_has_bounds_and_what_they_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    status, text, _ = run(capsys, "--intervals", "20", "--seed", "4", "--confidence", "0.9")
    assert status == OK
    line = next(line for line in text.splitlines() if line.startswith("map "))
    assert " 0.5046  (" in line and " to " in line
    assert "90% intervals of E[map] at 100 images: 20 replicates of images" in text and "seed 4" in text
    assert "replicates lack a class, which their mean leaves out" in text
    assert len(text.splitlines()) < 45


def test_json_has_the_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    documents: list[dict[str, Any]] = []
    for seed in ("1", "1", "2"):
        status, text, _ = run(capsys, "--intervals", "12", "--seed", seed, "--json", "-")
        assert status == OK
        documents.append(json.loads(text))
    first, again, other = (each["intervals"] for each in documents)
    assert first == again != other
    assert first["map"]["low"] < documents[0]["values"]["map"] < first["map"]["high"]
    assert first["map"]["lost_classes"] > 0
    reasons = {each["reason"] for name, each in first.items() if name.startswith("map_per_class/")}
    assert {"", "the number does not exist"} < reasons
    assert any(reason.startswith("too few images: ") for reason in reasons)
    assert documents[0]["interval_choices"]["replicates"] == 12
    status, text, _ = run(capsys, "--json", "-")
    assert "intervals" not in json.loads(text) and status == OK


def test_clusters_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [image["id"] for image in json.loads(GT.read_text())["images"]]
    path = tmp_path / "clusters.csv"

    def write(rows: list[tuple[Any, Any]], head: str = "image_id,cluster") -> None:
        path.write_text("\n".join([head, *(f"{image},{cluster}" for image, cluster in rows)]) + "\n")

    write([(number, number % 7) for number in ids])
    status, text, _ = run(capsys, "--intervals", "6", "--cluster-file", str(path))
    assert status == OK and "6 replicates of 7 clusters of images" in text
    for rows, head, error in (
        ([(number, 1) for number in ids[1:]], "image_id,cluster", "1 of 100 are missing"),
        ([(number, 1) for number in [*ids, 10**9]], "image_id,cluster", "1 ids are of no image"),
        ([(ids[0], 1), (ids[0], 2)], "image_id,cluster", "line 3 must name another image"),
        ([(ids[0], "")], "image_id,cluster", "line 2 must have an image and a cluster"),
        ([(ids[0], 1)], "image,video", "must have the columns image and cluster"),
    ):
        write(rows, head)
        status, _, told = run(capsys, "--intervals", "6", "--cluster-file", str(path))
        assert status == BAD_INPUT and error in told


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--cluster-file", "clusters.csv"), "--cluster-file needs --intervals N"),
        (("--seed", "3"), "--seed needs --intervals N"),
        (("--intervals", "10", "--confidence", "1"), "confidence must be above 0 and below 1"),
    ],
)
def test_options_that_need_another(options: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, told = run(capsys, *options)
    assert status == BAD_INPUT and error in told
