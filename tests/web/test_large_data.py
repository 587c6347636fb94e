"""Uploads that are legal and large: many columns, long names, long cells; pages stay small and say what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, send, text_of
from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.store import Store
from valor_gpu.web.processes.reader import LONGEST_NAME, MOST_COLUMNS

BASE = ["question", "answer", "ground_truth"]


@pytest.fixture
def browser(tmp_path: Path) -> TestClient:
    return client(tmp_path / "s.sqlite")


def upload(browser: TestClient, names: list[str], cells: list[str], rows: int = 2) -> Any:
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{address}/basics", {"scenario": "qa", "source": "data"})
    text = "\n".join([",".join(names), *[",".join(cells)] * rows])
    return send(browser, f"{address}/data", {"do": "load"}, files={"file": ("n.csv", text.encode())})


def test_a_page_of_the_most_columns_is_small(browser: TestClient) -> None:
    more = MOST_COLUMNS - len(BASE)
    page = upload(browser, [*BASE, *(f"column_{n}" for n in range(more))], ["x"] * MOST_COLUMNS)
    assert len(page.content) < 1_000_000 and f"{MOST_COLUMNS - 40:,} more columns are not shown" in text_of(page)
    assert f'<option value="${{data.column_{more - 1}}}"' in page.text, "all of them can be mapped"


@pytest.mark.parametrize(
    ("more", "says"),
    [([f"c{n}" for n in range(MOST_COLUMNS)], f"must have at most {MOST_COLUMNS:,} columns but has 2,003"),
     (["n" * 10_000], f"names of columns of at most {LONGEST_NAME} characters but has one of 10,000"),
     ([""] * 1_000_000, "must name at most 100,000 columns but has 1,000,003")],
)  # fmt: skip
def test_more_columns_and_longer_names_are_refused(
    browser: TestClient, tmp_path: Path, more: list[str], says: str
) -> None:
    page = upload(browser, [*BASE, *more], ["x"] * (len(BASE) + len(more)), 1)
    assert says in text_of(page) and len(page.content) < 50_000
    assert list((tmp_path / "s.uploads").iterdir()) == []


def test_a_long_cell_is_cut_on_the_page(browser: TestClient) -> None:
    assert len(upload(browser, BASE, ["q", "x" * 5_000_000, "g"]).content) < 50_000


def test_a_line_of_commas_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "commas.csv").write_text("," * 200_000 + "\n")
    with pytest.raises(InputError, match="line 1 must name at most 100,000 columns but has 200,001"):
        open_data(tmp_path / "commas.csv")


def test_a_file_that_has_changed_is_not_evaluated_under_its_old_hash(browser: TestClient, tmp_path: Path) -> None:
    page = upload(browser, BASE, ["q", "a", "g"])
    with Store(tmp_path / "s.sqlite") as store:
        [kept] = store.datasets.list()
    Path(kept.source).write_text("question,answer,ground_truth\nother,rows,here\n")
    changed = browser.get(page.url.path)
    assert "The file of n.csv has changed since it was listed" in text_of(changed)
    assert send(browser, page.url.path, {"do": "next"}).url.path == page.url.path
