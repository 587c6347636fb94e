"""Pages of definitions."""

from __future__ import annotations

import html
from pathlib import Path

from tests.web.pages import client, text_of
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.store import Store


def test_every_metric_has_its_page(tmp_path: Path) -> None:
    browser = client(tmp_path / "s.sqlite")
    for name, info in EVALUATORS.items():
        found = browser.get(f"/metrics/{name}")
        words = text_of(found)
        assert found.status_code == 200 and info.summary[1:30] in html.unescape(words), name
        assert all(field in words for field in info.requires), name
        assert ("System message" in words) == ("judge" in info.needs), name
        assert f'href="/evaluators/{name}"' in found.text, name


def test_an_own_evaluator_has_its_page_in_the_library(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        store.evaluators.save("kind tone", {"kind": "prompt", "prompt": "system:\nRate {{answer}} from 1 to 5."})
    found = client(tmp_path / "s.sqlite").get("/metrics/kind%20tone")
    assert found.status_code == 200 and found.url.path == "/evaluators/kind tone" and "kind tone" in text_of(found)


def test_levels(tmp_path: Path) -> None:
    words = text_of(client(tmp_path / "s.sqlite").get("/metrics/severity"))
    for line in ("Very low 0 2 nothing", "Low 2 4 mild", "Medium 4 6 plain", "High 6 7, included"):
        assert line in words


def test_unknown_metric_names_near_ones(tmp_path: Path) -> None:
    found = client(tmp_path / "s.sqlite").get("/metrics/f1_scor")
    assert found.status_code == 404 and "f1_score" in text_of(found)
