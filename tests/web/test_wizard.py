"""The wizard, page by page: drafts, uploads, mapping, metrics, cost, review, submission."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from tests.judge.server import ChatServer, Request, failure
from tests.web.pages import client, send, text_of
from valor_gpu.evaluation.engine.forecast import count_rows
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.store import Store
from valor_gpu.web.registry import read_registry
from valor_gpu.web.wizard import counting, uploads

CSV = b"question,passages,answer,expected\nWhat is 1?,One.,It is one.,one\nWhat is 2?,,It is two.,two\n"
TARGETS = "def answer(question, shout=False):\n    return question.upper() if shout else question\n"


def respond(request: Request) -> str:
    return '{"reason": "It is so.", "score": 4}'


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(respond) as found:
        yield found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


@pytest.fixture
def browser(path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("WIZARD_KEY", "a-key-that-nobody-may-see")
    (path.parent / "wizard_shop.py").write_text(TARGETS)
    judge = {"model": "stub", "base_url": server.url, "api_key_env": "WIZARD_KEY"}
    variants = {"loud": {"shout": True}, "low": {"shout": False}}
    registry = read_registry({
        "judges": {"free": judge, "priced": {**judge, "prices": {"prompt": 1000, "completion": 1000}},
                   "cheap": {**judge, "prices": {"prompt": 1, "completion": 1}},
                   "azure": {"azure_endpoint": server.root, "azure_deployment": "gpt", "api_key_env": "WIZARD_KEY"},
                   "pasted": {"azure_endpoint": f"{server.root}/openai/deployments/gpt/chat/completions",
                              "api_key_env": "WIZARD_KEY"},
                   "old": {"api_base": server.root, "deployment_id": "gpt", "api_type": "azure",
                           "api_key_env": "WIZARD_KEY"},
                   "locked": {**judge, "api_key_env": "WIZARD_NO_KEY"}},
        "targets": {"shop": {"use": f"{path.parent}/wizard_shop.py:answer", "variants": variants}},
        "evaluators": {"as_json": "json:dumps"},
    })  # fmt: skip
    return client(path, registry=registry)


def begin(browser: TestClient, **fields: Any) -> str:
    """A draft whose first page is filled in; returns its address."""
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    said = {"name": "numbers", "scenario": "context", "source": "data", **fields}
    assert send(browser, f"{address}/basics", said).url.path == f"{address}/data"
    return address


def upload(browser: TestClient, address: str, content: bytes = CSV, name: str = "rows.csv", **fields: str) -> Any:
    return send(browser, f"{address}/data", {"do": "load", **fields}, files={"file": (name, content)})


def chosen(browser: TestClient, *metrics: str, **fields: Any) -> tuple[str, Any]:
    """A draft up to its third page, and the answer to that page."""
    address = begin(browser)
    upload(browser, address)
    send(browser, f"{address}/data", {"do": "use:context:passages"})
    return address, send(browser, f"{address}/metrics", {"metric": list(metrics), "level": "Medium", **fields})


def finished(path: Path, uid: str) -> Any:
    with Store(path) as store:
        end = time.monotonic() + 60
        while store.run(uid).state != "finished":
            assert time.monotonic() < end
            time.sleep(0.05)
        return store.run(uid).config


def test_a_draft_outlives_browser_and_server(browser: TestClient, path: Path) -> None:
    address = begin(browser)
    again = client(path)
    assert f'href="{address}/data">numbers' in again.get("/runs").text  # the list leads to the page that comes next
    assert 'value="numbers"' in again.get(f"{address}/basics").text
    assert address not in str(again.get("/new").url)  # another one, which names the first
    assert f'href="{address}/data">numbers' in again.get("/new").text
    send(again, f"{address}/delete")
    assert again.get(f"{address}/basics").status_code == 404


def test_a_name_that_looks_like_a_key_is_refused(browser: TestClient, path: Path) -> None:
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    key = "sk-proj-abcdefghijklmnop1234"
    found = send(browser, f"{address}/basics", {"name": key, "scenario": "qa"})
    assert "looks like a key" in text_of(found)
    assert key not in found.text
    assert key.encode() not in path.read_bytes() + Path(f"{path}-wal").read_bytes()


def test_an_upload_is_stored_under_a_name_of_ours(browser: TestClient, path: Path) -> None:
    address = begin(browser)
    page = text_of(upload(browser, address, name="../../<b>rows.csv"))
    assert re.search(r"columns 2 . 4 Content hash", page)
    assert "What is 2?" in page
    [stored] = path.with_suffix(".uploads").iterdir()
    assert re.fullmatch(r"[0-9a-f]{16}\.csv", stored.name)
    assert stored.read_bytes() == CSV
    assert stored.stat().st_mode & 0o077 == 0
    upload(browser, address)
    assert len(list(path.with_suffix(".uploads").iterdir())) == 1  # the same content is stored once


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.exe", CSV, "rows.exe must be a file that ends in .csv or .jsonl"),
        ("rows.csv", b"", "rows.csv"),
        ("rows.csv", b"a,b\n\xff\xfe\n", "rows.csv"),
        ("rows.jsonl", b'{"a": 1\n', "rows.jsonl, line 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_not_stored(
    browser: TestClient, path: Path, name: str, content: bytes, said: str
) -> None:
    address = begin(browser)
    page = upload(browser, address, content, name)
    assert "The file was not stored." in text_of(page)
    assert said in text_of(page)
    assert str(path.parent) not in page.text
    assert list(path.parent.glob("*.uploads/*")) == []


def test_a_broken_line_is_named_and_the_others_are_used(browser: TestClient) -> None:
    page = text_of(upload(browser, begin(browser), CSV + b"only one cell\n"))
    assert "1 row cannot be read." in page
    assert "rows.csv, line 4 must have 4 cells, as the header has, but has 1: column 2, &#39;passages&#39;, is" in page


def test_one_row_is_one_row(browser: TestClient) -> None:
    words = text_of(upload(browser, begin(browser), b"answer\none\n"))
    assert "rows.csv, 1 row " in words and "First 1 of 1 row." in words


def test_a_file_that_is_too_large(browser: TestClient, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST", 50)
    assert "must have at most" in text_of(upload(browser, begin(browser)))
    assert list(path.with_suffix(".uploads").iterdir()) == []


def test_mapping_proposes_and_explains(browser: TestClient) -> None:
    address = begin(browser)
    page = text_of(upload(browser, address))
    assert "by name: ${data.question}" in page
    assert "Use passages" in page
    assert "ground_truth is not mapped: metrics that need it stay off. The column expected may be it." in page
    page = text_of(send(browser, f"{address}/data", {"do": "use:ground_truth:expected"}))
    assert "ground_truth is not mapped" not in page
    assert "chosen by you" in page
    page = send(browser, f"{address}/data", {"do": "next", "map-answer": "${data.none}"})
    assert page.url.path == f"{address}/data"
    assert "none" in re.findall(r'id="problem-mapping"[^>]*>(.*?)</p>', page.text, re.DOTALL)[0]


def test_mapping_offers_paths_and_columns_that_begin_late(browser: TestClient) -> None:
    rows: list[Any] = [{"question": "q", "out": {"reply": "deep"}}] * 120
    rows += [{"question": "q", "out": {"reply": "d"}, "truth": "d"}, {"question": "q", "out": {"late": "l"}}]
    content = "\n".join(map(json.dumps, rows)).encode()
    address = begin(browser)
    page = upload(browser, address, content, "rows.jsonl")
    assert '<option value="${data.out.reply}"' in page.text and '<option value="${data.truth}"' in page.text
    fields = {"map-answer": "${data.out.reply}", "map-ground_truth": "${data.truth}", "do": "next"}
    send(browser, f"{address}/data", fields)
    shown = browser.get(f"{address}/data").text
    assert "deep" in text_of(browser.get(f"{address}/data")) and "which is no column" not in shown
    page = send(browser, f"{address}/data", {**fields, "map-answer": "${data.out.late}"})
    assert page.url.path == f"{address}/metrics"


def test_mapping_proposes_paths_by_their_last_name(browser: TestClient) -> None:
    row = {"question": "q", "outputs": {"Response": "deep", "seconds": 1}, "ground_truth": "d"}
    page = upload(browser, begin(browser), json.dumps(row).encode(), "rows.jsonl")
    assert "Use outputs.Response" in text_of(page)


def test_only_what_the_columns_allow_can_be_ticked(browser: TestClient) -> None:
    address, page = chosen(browser, "f1_score", "gpt_coherence", do="estimate", judge="free")
    assert re.search(r'value="f1_score" disabled', page.text)
    assert "Off: ground_truth is not mapped." in text_of(page)
    assert "Needs a model of embeddings" in text_of(page)
    assert re.search(r'value="gpt_coherence" checked', page.text)
    assert 'value="f1_score" checked' not in page.text  # though the form had it
    assert browser.get(f"{address}/metrics").status_code == 200


def test_cost_before_anything_is_spent(browser: TestClient, server: ChatServer) -> None:
    _, page = chosen(browser, "gpt_coherence", "gpt_groundedness", do="estimate", judge="free")
    assert "Judge calls 3 " in text_of(page)  # the second row has no context
    assert "1 row lacks what gpt_groundedness needs" in text_of(page)
    assert "cost unknown" in text_of(page)
    _, page = chosen(browser, "gpt_coherence", do="estimate", judge="priced")
    assert "cost unknown" not in text_of(page)
    _, page = chosen(browser, "gpt_coherence", do="estimate", judge="cheap")
    assert "as the prices less than 0.01" in text_of(page), "a small cost is not shown as none"
    assert server.requests == []


def test_what_evaluate_would_reject_is_said_at_the_field(browser: TestClient) -> None:
    _, page = chosen(browser, "gpt_coherence", do="next")
    assert "model_config or judge must be given" in text_of(page)
    assert 'aria-describedby="problem-judge"' in page.text
    above = page.text.index("The evaluation cannot start like this.")
    assert above < page.text.index('<a href="#problem-judge">') < page.text.index("Performance and quality")
    _, page = chosen(browser, do="next")
    assert "Tick at least one metric." in text_of(page)
    address, page = chosen(browser, "gpt_coherence", do="next", judge="locked")
    assert "the environment variable WIZARD_NO_KEY is not set" in text_of(page)
    page = send(browser, f"{address}/submit")
    assert "Nothing was started." in text_of(page)


def test_connection(browser: TestClient, server: ChatServer) -> None:
    _, page = chosen(browser, "gpt_coherence", do="test", judge="free")
    assert "with a rating of 4 from 1 to 5" in text_of(page)
    assert "What is 1?" not in str([request.body for request in server.requests])
    _, page = chosen(browser, "gpt_coherence", do="test", judge="locked")
    assert "WIZARD_NO_KEY is not set" in text_of(page)
    _, page = chosen(browser, do="test")
    assert "Choose a judge first." in text_of(page)
    server.respond = lambda request: "no idea"
    _, page = chosen(browser, do="test", judge="free")
    assert re.search("No rating: [a-z_]+[.].* a rating but is .no idea", text_of(page))
    server.respond = lambda request: failure(401, "wrong key a-key-that-nobody-may-see")
    _, page = chosen(browser, do="test", judge="free")
    assert "No rating: unauthorized" in text_of(page)
    assert "a-key-that-nobody-may-see" not in page.text


def test_review_and_submission(browser: TestClient, server: ChatServer, path: Path) -> None:
    address, page = chosen(browser, "gpt_coherence", "violence", do="next", judge="free")
    assert page.url.path == f"{address}/review"
    assert f"Receives rows {server.root.removeprefix('http://')}" in text_of(page)
    document = re.findall(r"<pre tabindex=\"0\">(.*?)</pre>", page.text, re.DOTALL)[0].replace("&#34;", '"')
    said = yaml.safe_load(document)
    assert said["thresholds"] == {"violence": "Medium"}
    assert said["data_mapping"] == {"context": "${data.passages}"}
    assert said["model_config"]["api_key_env"] == "WIZARD_KEY"
    assert "a-key-that-nobody-may-see" not in page.text
    assert server.requests == []
    run = send(browser, f"{address}/submit")
    assert re.fullmatch(r"/runs/[0-9a-f]{12}", run.url.path)
    config = finished(path, run.url.path.rsplit("/", 1)[1])
    assert config["thresholds"] == {"violence": "Medium"}
    assert len(server.requests) == 4
    assert browser.get(f"{address}/review").status_code == 404
    copy = send(browser, f"{run.url.path}/duplicate")
    assert copy.url.path.endswith("/review")
    assert "numbers (copy)" in text_of(copy)
    assert f"Receives rows {server.root.removeprefix('http://')}" in text_of(copy)


@pytest.mark.parametrize(("ticked", "kept"), [({"keep_prompts": "yes"}, True), ({}, False)])
def test_the_switch_of_prompts(browser: TestClient, path: Path, ticked: dict[str, str], kept: bool) -> None:
    address, page = chosen(browser, "gpt_coherence", "gpt_fluency", do="next", judge="free")
    assert "Keep prompts and requests in the store" in text_of(page)
    rows = re.search(r"Prompts of ([\d,]+) rows x 2 metrics take about (\d+) kB", text_of(page))
    assert rows is not None and int(rows[2]) >= 1
    assert re.search(r'name="keep_prompts" value="yes" checked', page.text)
    uid = send(browser, f"{address}/submit", {"prompts": "asked", **ticked}).url.path.rsplit("/", 1)[1]
    with Store(path) as store:
        assert store.run(uid).config["keep_prompts"] is kept
    again = send(browser, f"/runs/{uid}/duplicate")
    assert bool(re.search(r'name="keep_prompts" value="yes" checked', again.text)) is kept
    assert ("keep_prompts: false" in again.text) is not kept
    finished(path, uid)


@pytest.mark.parametrize("judge", ["azure", "pasted", "old"])
def test_a_judge_of_azure_is_named_by_its_deployment(browser: TestClient, server: ChatServer, judge: str) -> None:
    host = server.root.removeprefix("http://")
    address, page = chosen(browser, "gpt_coherence", do="estimate", judge=judge)
    assert page.status_code == 200 and f"{judge}: gpt at {host}" in text_of(page)
    page = send(browser, f"{address}/metrics", {"metric": "gpt_coherence", "do": "next", "judge": judge})
    assert f"Judge {judge}, gpt Receives rows {host}" in text_of(page)


def test_a_target_with_variants(browser: TestClient, path: Path) -> None:
    address = begin(browser, source="target", target="shop", variant=["loud", "low"], scenario="qa")
    upload(browser, address)
    send(browser, f"{address}/data", {"do": "use:ground_truth:expected"})
    page = send(browser, f"{address}/metrics", {"metric": ["exact_match"], "do": "next"})
    assert "Calls of the target 4" in text_of(page)
    assert "no one: rows stay on this machine" in text_of(page)
    assert send(browser, f"{address}/submit").url.path == "/runs"
    with Store(path) as store:
        runs = {str(run.tags["variant"]): run.id for run in store.runs()}
        assert set(runs) == {"loud", "low"}
        for uid in runs.values():
            finished(path, uid)
        assert [row.outputs["answer"] for row in store.run(runs["loud"]).rows()] == ["WHAT IS 1?", "WHAT IS 2?"]
    copy = text_of(send(browser, f"/runs/{runs['loud']}/duplicate"))
    assert "Evaluate target shop Variants loud" in copy


def test_the_target_only(browser: TestClient, path: Path) -> None:
    address = begin(browser, source="target", target="shop", scenario="qa")
    upload(browser, address)
    page = send(browser, f"{address}/metrics", {"only": "yes", "do": "next"})
    assert "none, the target only" in text_of(page)
    uid = send(browser, f"{address}/submit").url.path.rsplit("/", 1)[1]
    assert finished(path, uid)["evaluators"] == []
    shown = browser.get(f"/runs/{uid}").text
    assert "Nothing was scored" in shown and "no score yet" not in shown
    assert 'name="q"' in shown and 'name="m"' not in shown and 'name="sort"' not in shown, "no score to filter by"


def test_targets_that_are_not_registered(browser: TestClient) -> None:
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    page = send(browser, f"{address}/basics", {"scenario": "qa", "source": "target", "target": "os:system"})
    assert page.status_code == 400
    assert "must be a registered one of shop" in text_of(page)
    assert "There is no registered target os:system" in text_of(browser.get("/new?target=os:system"))


def test_drafts_that_are_not_there(browser: TestClient) -> None:
    for page in ("basics", "data", "metrics", "review"):
        assert browser.get(f"/drafts/none/{page}").status_code == 404
    assert send(browser, "/drafts/none/submit").status_code == 404


def test_hostile_names_are_inert(browser: TestClient) -> None:
    address = begin(browser, name="<script>alert(1)</script>")
    content = b'question,"<script>alert(2)</script>",answer\n1,<script>alert(3)</script>,2\n'
    upload(browser, address, content, "<script>alert(4)<script>.csv")
    for page in ("basics", "data", "metrics", "review"):
        assert "<script>alert" not in browser.get(f"{address}/{page}").text


def test_large_data_are_read_once(browser: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def counted(*arguments: Any) -> Any:
        reads.append(1)
        return count_rows(*arguments)

    monkeypatch.setattr(counting, "count_rows", counted)
    address, page = chosen(browser, "gpt_coherence", "gpt_groundedness", do="estimate", judge="free")
    assert "Judge calls 3 " in text_of(page)
    before = len(reads)
    for step in ("data", "metrics", "review", "metrics"):
        browser.get(f"{address}/{step}")
    page = send(browser, f"{address}/metrics", {"metric": "gpt_groundedness", "judge": "free"})
    assert "Judge calls 1 " in text_of(page)  # of other metrics, by the same counts
    assert len(reads) == before


def test_metrics_of_the_scenario_come_first_and_the_others_in_groups(browser: TestClient) -> None:
    address = begin(browser)
    upload(browser, address)
    send(browser, f"{address}/data", {"map-ground_truth": "${data.expected}"})
    page = browser.get(f"{address}/metrics").text
    names = re.findall(r'name="metric" value="([^"]+)"', page)
    first = page[: page.index('<details class="more"')]
    assert {"gpt_coherence", "f1_score"} <= set(re.findall(r'name="metric" value="([^"]+)"', first))
    assert "rouge1" not in first and "rouge1" in names and len(names) == len(set(names))
    assert '<details class="more"><summary>Text comparison' in page
    send(browser, f"{address}/metrics", {"metric": ["rouge1"], "level": "Medium"})
    assert '<details class="more" open><summary>Text comparison' in browser.get(f"{address}/metrics").text


def test_data_are_not_missed_before_anybody_was_asked_for_them(browser: TestClient) -> None:
    address = begin(browser)
    assert "Choose a data set" not in browser.get(f"{address}/data").text
    assert "Choose a data set" in send(browser, f"{address}/data", {"do": "next"}).text


def test_conversations_are_rated_by_their_messages(browser: TestClient, path: Path) -> None:
    address = begin(browser, scenario="chat")
    turns = b'{"messages": [{"role": "user", "content": "What is 1?"}, {"role": "assistant", "content": "One."}]}\n'
    shown = upload(browser, address, turns, "talks.jsonl").text
    assert "&#34;role&#34;: &#34;user&#34;" in shown and "{&#39;role" not in shown, (
        "as in the file, not as Python says it"
    )
    form = {"metric": ["gpt_coherence", "violence", "f1_score"], "level": "Medium", "judge": "free", "do": "next"}
    page = send(browser, f"{address}/metrics", form)
    assert page.url.path == f"{address}/review"
    run = send(browser, f"{address}/submit").url.path.rsplit("/", 1)[-1]
    assert [each["name"] for each in finished(path, run)["evaluators"]] == ["gpt_coherence", "violence"]
    assert "1 scored" in text_of(browser.get(f"/runs/{run}"))


def test_an_own_evaluator_says_what_it_asks(browser: TestClient, path: Path) -> None:
    with Store(path) as store:
        save_evaluator(
            store, "polite", "---\ndescription: how polite it is\n---\nRate from 1 to 5: {{ answer }}\n", "a note"
        )
    page = text_of(browser.get(f"{begin(browser)}/metrics"))
    assert "polite how polite it is" in page and "a note" not in page
