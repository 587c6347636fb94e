"""Links of pages."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

from starlette.testclient import TestClient

from tests.web.pages import client
from valor_gpu.store import Store, StoredRow, StoredScore

NAMES = ("f1_score", "gpt_fluency", "violence")


def fill(path: Path) -> None:
    """Makes two finished runs with failures, and a draft."""
    with Store(path) as store:
        for name in ("small", "large"):
            run = store.create_run(name, {"evaluators": [{"name": each} for each in NAMES], "target": {"name": "t"}})
            rows = [StoredRow(n, f"k{n}", {"question": f"q{n}"}, {"answer": "a"}) for n in range(1, 31)]
            run.add_rows([*rows, StoredRow(31, "k31", {"question": "q"}, {}, "target_error", "no answer")])
            run.add_scores([StoredScore(row.number, each, 0, 1.0) for row in rows[1:] for each in NAMES])
            run.add_scores([StoredScore(1, "gpt_fluency", 0, None, "timeout")])
            with run.lease():
                run.finish("finished", {})
        store.create_run("draft", {})


def visited(browser: TestClient, start: str) -> dict[str, int]:
    """Follows the links of this server; pages that differ only in values of their query are one.

    Returns:
        Address to status.
    """
    found, known, waiting = {}, {(start, frozenset[str]())}, [start]
    while waiting:
        address = waiting.pop()
        response = browser.get(address)
        found[address] = response.status_code
        if "text/html" not in response.headers["content-type"]:
            continue
        for link in re.findall(r'(?:href|src)="([^"]+)"', response.text):
            to = urljoin(address, html.unescape(link)).partition("#")[0]
            key = urlsplit(to).path, frozenset(parse_qs(urlsplit(to).query))
            if to.startswith("/") and key not in known:
                known.add(key)
                waiting.append(to)
    return found


def test_every_link_leads_to_a_page(tmp_path: Path) -> None:
    fill(tmp_path / "s.sqlite")
    found = visited(client(tmp_path / "s.sqlite"), "/runs")
    assert len(found) > 100
    assert {address: status for address, status in found.items() if status != 200} == {}
