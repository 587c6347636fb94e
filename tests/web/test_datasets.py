"""Pages of data sets and targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, text_of
from valor_gpu.store import Store, StoredRow
from valor_gpu.web.registry import Registry

HASH, OTHER = "ab" * 32, "cd" * 32
TARGETS: dict[str, dict[str, Any]] = {
    "helpdesk": {
        "use": {"url": "https://user:secret-word@host.example/answer"},
        "variants": {"short": {"k": 1}, "long": {"k": 5}},
        "about": "answers of <i>the</i> shop",
    },
    "shop": {"use": "shop.app:answer"},
    "model": {"use": {"model": "qwen", "prompt": "{{ question }}"}},
}


def fill(path: Path) -> str:
    """Two runs of one data set by code, one of a target, and an uploaded file of another data set."""
    uploads = path.with_suffix(".uploads")
    uploads.mkdir()
    (uploads / "u1.csv").write_text("question,answer\nfirst <b>?,yes\nsecond?,no\n")
    data = {"source": "/home/me/books.csv", "hash": HASH, "columns": ["question", "answer"], "rows": None}
    with Store(path) as store:
        for name, rows in (("old", 60), ("new", None)):
            run = store.create_run(name, {"data": {**data, "rows": rows}, "target": {"name": "gone:t"}}, dataset=HASH)
            run.add_rows([StoredRow(1, "k1", {"question": "<i>Why?", "answer": None, "extra": [1]})])
        store.datasets.save(OTHER, "uploaded.csv", ["question", "answer"], 2, str(uploads / "u1.csv"))
        return run.id


@pytest.fixture
def site(tmp_path: Path) -> TestClient:
    fill(tmp_path / "s.sqlite")
    return client(tmp_path / "s.sqlite", registry=Registry(targets=TARGETS))


def test_list_has_those_of_code_and_of_uploads(site: TestClient) -> None:
    words = text_of(site.get("/datasets"))
    assert "books.csv" in words and "abababababab 60 question, answer 2 new" in words
    assert "uploaded.csv kept for new evaluations cdcdcdcdcdcd 2 question, answer 0" in words
    assert "books.csv" not in text_of(site.get("/datasets?q=uploaded"))
    assert "No data set matches" in text_of(site.get("/datasets?q=nothing"))
    assert site.get("/datasets?from=x").status_code == 200


def test_page_of_one_that_runs_read(site: TestClient) -> None:
    found = site.get(f"/datasets/{HASH}")
    words = text_of(found)
    assert "Rows 60" in words and "/home/me/books.csv" in words and "as run new keeps them" in words
    assert "&lt;i&gt;Why?" in found.text and "<i>Why" not in found.text
    assert "old" in words and "/new?dataset" not in found.text
    assert text_of(site.get(f"/datasets/{HASH[:8]}")) == words


def test_page_of_an_uploaded_one(site: TestClient) -> None:
    found = site.get(f"/datasets/{OTHER}")
    words = text_of(found)
    assert "2 of 2 rows, of the file" in words and "first &lt;b&gt;?" in found.text
    assert "None in this store." in words and f"/new?dataset={OTHER}" in found.text


def test_no_file_outside_of_the_uploads_is_read(site: TestClient, tmp_path: Path) -> None:
    store = site.app.state.studio.store  # type: ignore[attr-defined]
    (tmp_path / "private.csv").write_text("word\nhidden\n")
    for digest, source in (("1" * 64, tmp_path / "private.csv"), ("2" * 64, tmp_path / "s.uploads/../private.csv")):
        store.datasets.save(digest, "private", ["word"], 1, str(source))
        words = text_of(site.get(f"/datasets/{digest}"))
        assert "hidden" not in words and "there is no uploaded file" in words
    (tmp_path / "s.uploads/u1.csv").unlink()
    assert "there is no uploaded file" in text_of(site.get(f"/datasets/{OTHER}"))


@pytest.mark.parametrize("digest", ["ab", "ef" * 32, "../../etc/passwd", "%00"])
def test_unknown_data_sets(site: TestClient, digest: str) -> None:
    assert site.get(f"/datasets/{digest}").status_code == 404


def test_targets(site: TestClient) -> None:
    found = site.get("/targets")
    words = text_of(found)
    assert "helpdesk" in words and "HTTP endpoint" in words and "secret-word" not in found.text
    assert "/new?target=helpdesk&amp;variant=short" in found.text and "/new?target=shop" in found.text
    assert (
        "answers of <i>" not in found.text
        and "shop.app:answer function" in words
        and "qwen model with a prompt" in words
    )
    assert "gone:t 2 runs, the last one new" in words


def test_without_targets(tmp_path: Path) -> None:
    browser = client(tmp_path / "s.sqlite")
    found = text_of(browser.get("/targets"))
    assert "No target is registered." in found and "valor-gpu studio --registry" in found
    assert "No data set in this store yet." in text_of(browser.get("/datasets"))
