"""Tests of saved results on the page of a comparison, which go on in the background."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.made import Number, coco_comparison
from tests.web.pages import client, text_of
from tests.web.work import wait
from valor_gpu.comparison import comparing
from valor_gpu.errors import InputError
from valor_gpu.store import SavedRun, Store
from valor_gpu.web import errands

CLASSES = {"cat": Number(0.05, p=0.004), "<b>dog</b>": Number(-0.04, p=0.3)}


class Given:
    """A result that is saved."""

    def __init__(self, value: float) -> None:
        self.value = value

    def to_run(self) -> SavedRun:
        return SavedRun("detection", {}, {"map": self.value}, classes={"map": {"cat": self.value, "dog": 0.5}})


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    with Store(tmp_path / "s.sqlite") as store:
        return [store.save(Given(0.5 + n / 10), f"run {n}").id for n in range(6)]


def address(ids: list[str]) -> str:
    return f"/compare?runs={','.join(ids)}&baseline={ids[0]}"


def waited(site: Any, path: str) -> Any:
    """The page when nothing waits any more."""
    found: Any = None

    def is_done() -> bool:
        nonlocal found
        found = site.get(path)
        return 'http-equiv="refresh"' not in found.text

    wait(is_done)
    return found


def test_tests_stand_on_the_page_and_are_kept(tmp_path: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def compare(first: Any, second: Any) -> Any:
        asked.append((first.id, second.id))
        return coco_comparison(CLASSES, notes=["version: 1.0 and 1.1"])

    monkeypatch.setattr(comparing, "compare", compare)
    site = client(tmp_path / "s.sqlite")
    found = waited(site, address(ids[:2]))
    words = text_of(found)
    assert "B against A map +0.006 (0.001 to 0.011), p 0.021; 1 of 2 classes differ" in words
    assert "Number A B Difference 95% interval Less · more p Permutation p Detectable Reading" in words
    assert "map 0.340 0.346 +0.006 +0.001 to +0.011 0.021 0.030 0.007 higher" in words
    assert "cat 0.340 0.390 +0.050" in words and "<b>dog" not in found.text and "version: 1.0 and 1.1" in words
    assert "Numbers of the whole" not in words and "null hypothesis" in words
    assert text_of(site.get(address(ids[:2]))) == words and asked == [(ids[0], ids[1])]


def test_a_page_does_not_wait_for_tests(tmp_path: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def compare(first: Any, second: Any) -> Any:
        assert go.wait(120)
        return coco_comparison(CLASSES)

    monkeypatch.setattr(comparing, "compare", compare)
    monkeypatch.setattr(errands, "PATIENCE", 0.02)
    site = client(tmp_path / "s.sqlite")
    found = site.get(address(ids))
    words = text_of(found)
    assert 'http-equiv="refresh"' in found.text and "B, C, D, E, F are being tested against A" in words
    assert "refresh" not in site.get(address(ids) + "&still=1").text
    assert "AP 0.500 0.600 +0.100" in words, "plain numbers stand there meanwhile"
    go.set()
    words = text_of(waited(site, address(ids)))
    assert words.count("map +0.006 (0.001 to 0.011), p 0.021; 1 of 2 classes differ") == 5
    assert "Numbers of the whole" not in words


def test_a_page_says_why_there_is_no_test(tmp_path: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(first: Any, second: Any) -> Any:
        raise InputError("this run keeps no state: save it again with --store")

    monkeypatch.setattr(comparing, "compare", compare)
    words = text_of(waited(client(tmp_path / "s.sqlite"), address(ids[:3])))
    assert "No test of B, C: this run keeps no state: save it again with --store." in words
    assert "AP 0.500 0.600 +0.100" in words


def test_another_error_is_one_of_the_server(tmp_path: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(first: Any, second: Any) -> Any:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(comparing, "compare", compare)
    assert client(tmp_path / "s.sqlite").get(address(ids[:2])).status_code == 500
