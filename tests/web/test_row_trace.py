"""Traces on the page of a row, the size on that of a run, and the switch on the last page of the wizard."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, failure
from tests.web.pages import client, text_of
from valor_gpu.errors import DamageError
from valor_gpu.evaluation.run import evaluate, rescore_run
from valor_gpu.store import Run, Store, StoredRow, StoredScore, StoredTrace, keep_traces, traces_of
from valor_gpu.web.rows.traces import SHOWN, size_in_words

GOOD = '{"reason": "as asked", "score": 4}'
ROWS = [{"question": "Capital of France?", "answer": "It is Paris."}]
JUDGED = {"version": 1, "evaluators": [{"name": "m", "needs_judge": True, "kind": "custom", "source": "custom"}]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


def page_of(path: Path, run_id: str, query: str = "") -> Any:
    found = client(path).get(f"/runs/{run_id}/rows/1{query}")
    assert found.status_code == 200
    return found


def quoted(page: Any) -> list[str]:
    """The texts of the page's quotations."""
    return [html.unescape(each) for each in re.findall(r"<pre id=[^>]*>(.*?)</pre>", page.text, re.DOTALL)]


def stored(path: Path, content: Any, config: Any = None) -> str:
    """A run of a row whose score has a trace of any content; None for none."""
    with Store(path) as store:
        run = store.create_run("r", {**JUDGED, "keep_prompts": True} if config is None else config)
        run.add_rows([StoredRow(1, "k", {"question": "?"})])
        run.add_scores([StoredScore(1, "m", 0, 1.0)])
        if content is not None:  # any JSON, of other code
            keep_traces(run, [StoredTrace(1, "m", content=content)])
        return run.id


def judged(path: Path, respond: Any, **given: Any) -> Run:
    with ChatServer(respond) as server, Store(path) as store:
        judge = {"model": "m", "base_url": server.url, "api_key": "a-key-that-nobody-may-see"}
        given = {"data": ROWS, "metrics_list": ["gpt_fluency"], "model_config": judge, "store": store, **given}
        return evaluate(**given).run  # type: ignore[no-any-return]


def test_a_score_leads_to_what_was_asked_and_answered(path: Path) -> None:
    answers = iter([failure(500, "down for repairs", retry_after="0.02"), "no rating", GOOD])
    run = judged(path, lambda request: next(answers))
    page = page_of(path, run.id, "?trace=gpt_fluency")
    with Store(path) as store:
        [trace] = traces_of(store.run(run.id), 1)
    [call] = trace.content["calls"]
    messages = [each["content"] for each in call["messages"]]
    added = [each["content"] for each in call["requests"][2]["added"]]
    assert quoted(page) == [*messages, "no rating", *added, GOOD]
    text = text_of(page)
    for said in ("gpt_fluency 1 call, 1 retry, 1 repair, 30 tokens", "Request 1 server error after", "down for repairs",
                 "Request 2 parse error after", "Request 3 ok",
                 "finish reason stop · model stub-1 · tokens 10 in, 5 out",
                 "Sent with it: 2 more messages", "temperature 0.0", "base url http://127.0.0.1"):  # fmt: skip
        assert said in text, said
    assert re.search(r'<details class="trace" id="trace-1" open>', page.text)
    assert f'href="/runs/{run.id}/rows/1?trace=gpt_fluency#traces"' in page.text
    assert "open>" not in page_of(path, run.id).text


def test_every_text_has_a_button_that_copies_it(path: Path) -> None:
    page = page_of(path, judged(path, lambda request: GOOD).id)
    ids = re.findall(r'<pre id="([^"]+)"', page.text)
    assert len(ids) == len(set(ids)) == 3 and re.findall(r'data-copy="([^"]+)"', page.text) == ids


def test_scores_and_traces_come_in_the_order_of_the_columns(path: Path) -> None:
    names = ["f1_score", "violence", "zeal", "gpt_fluency"]
    kinds = ["text", "safety", "custom", "quality"]
    infos = [{"name": name, "kind": kind, "needs_judge": True} for name, kind in zip(names, kinds)]
    with Store(path) as store:
        run = store.create_run("r", {"version": 1, "evaluators": infos, "keep_prompts": True})
        run.add_rows([StoredRow(1, "k", {"question": "?"})])
        run.add_scores([StoredScore(1, name, 0, 1.0) for name in names])
        keep_traces(run, [StoredTrace(1, name, content={"calls": []}) for name in names])
        browser = client(path)
        table = re.findall(r"sort=-(\w+)#rows", browser.get(f"/runs/{run.id}").text)
        page = browser.get(f"/runs/{run.id}/rows/1").text
    scores, traces = page.split('id="traces"')
    assert sorted(table) == sorted(names) and table != names
    assert re.findall(r'<th scope="row">(\w+)</th>', scores) == table
    assert re.findall(r"<summary><b>(\w+)</b>", traces) == table


def test_an_open_row_of_the_table_leads_to_the_trace(path: Path) -> None:
    run = judged(path, lambda request: GOOD, repeats=2)
    page = client(path).get(f"/runs/{run.id}?open=1")
    assert re.findall(rf'href="/runs/{run.id}/rows/1\?trace=([^"]+)#traces"', page.text) == [
        "gpt_fluency%2C%20repeat%201", "gpt_fluency%2C%20repeat%202"
    ]  # fmt: skip
    page = page_of(path, run.id, "?trace=gpt_fluency%2C%20repeat%202")
    assert re.findall(r'<details class="trace" id="(trace-\d)"( open)?>', page.text) == [
        ("trace-1", ""), ("trace-2", " open")
    ]  # fmt: skip


def test_an_answer_shows_what_its_target_was_sent(path: Path) -> None:
    def respond(request: Request) -> Answer | str:
        return Answer(body={"answer": "Paris"}) if request.path == "/ask" else GOOD

    with ChatServer(respond) as server, Store(path) as store:
        target = {"url": f"{server.root}/ask", "headers": {"authorization": "Bearer a-key-that-nobody-may-see"}}
        run = evaluate(data=[{"question": "Où?"}], target=target, metrics_list=[], store=store).run
    page = page_of(path, run.id)
    assert quoted(page) == ['{\n  "question": "Où?"\n}', '{"answer": "Paris"}']
    text = text_of(page)
    assert "Answer of the target 1 call" in text and "header authorization ***" in text and "method POST" in text
    assert "nobody-may-see" not in page.text


def test_runs_without_traces_say_why(path: Path) -> None:
    old = stored(path, None, JUDGED)
    assert "m not kept: this run was made before traces were kept" in text_of(page_of(path, old))
    assert "All of it as JSON" not in page_of(path, old).text
    resumed = stored(path, None)
    assert "m not kept: this was made before traces were kept" in text_of(page_of(path, resumed))
    without = judged(path, lambda request: GOOD, keep_prompts=False)
    text = text_of(page_of(path, without.id))
    assert "Prompts and requests are not kept: this was made without prompts." in text
    assert quoted(page_of(path, without.id)) == [GOOD]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE traces SET content = substr(content, 1, 12) WHERE repeat >= 0",
        "UPDATE traces SET content = x'00ff' WHERE repeat < 0",
        "UPDATE traces SET content = x'42' WHERE repeat >= 0",
        "DELETE FROM traces WHERE repeat < 0",
    ],
)
def test_a_damaged_trace_does_not_take_the_page_of_its_row_along(path: Path, damage: str) -> None:
    rows = [*ROWS, {"question": "Capital of Italy?", "answer": "It is Rome."}]
    run = judged(path, lambda request: GOOD, data=rows)
    with Store(path) as store, store._database.write() as connection:
        connection.execute(damage)
    page = client(path).get(f"/runs/{run.id}/rows/2")
    assert page.status_code == 200 and "It is Rome." in text_of(page)
    place = "(trace by 'gpt_fluency' of row 2 in|text that traces by 'gpt_fluency' share, kept with row 1 of) run"
    told = f"store .* is damaged: {place} .*: it cannot be read: .*valor-gpu store check"
    assert re.search(f"gpt_fluency {told}", html.unescape(text_of(page)))
    with Store(path) as store, pytest.raises(DamageError, match=told):
        traces_of(store.run(run.id), 2)


def test_a_row_without_judge_and_target_has_no_traces(path: Path) -> None:
    with Store(path) as store:
        run = evaluate(data=[{"answer": "a", "ground_truth": "a"}], metrics_list=["f1_score"], store=store).run
    page = page_of(path, run.id)
    assert "Traces" not in text_of(page) and "?trace=" not in page.text


HOSTILE = (
    "<script>alert(1)</script>", "</pre><img src=x onerror=alert(1)>", "{{ 7 * 7 }}{% include 'x' %}", '" onfocus="x',
    "\x00\x1b[31m red", "\u202e reversed", "lone \ud800 surrogate", "\u2066isolated", "a\r\nb",
)  # fmt: skip


@pytest.mark.parametrize("odd", HOSTILE)
def test_hostile_texts_are_shown_as_text(path: Path, odd: str) -> None:
    reply = {"text": odd, "finish_reason": odd, "model": odd, "usage": {odd: 1}, "dropped": [odd]}
    call = {
        "messages": [{"role": odd, "content": odd, "rest": odd}], "status": odd, "error": odd,
        "requests": [{"status": odd, "error": odd, "added": [{"role": odd, "content": odd}], "reply": reply}],
    }  # fmt: skip
    run = stored(path, {"judge": {odd: odd, "x": {odd: odd}}, "calls": [call, {"cached": True, "reply": reply}]})
    page = page_of(path, run, "?trace=m")
    assert "<script>alert" not in page.text and "<img" not in page.text and 'onfocus="x' not in page.text
    assert "{{ 7 * 7 }}" in page.text if "7 * 7" in odd else "49" not in text_of(page)
    assert not set("\x00\x1b\u202e\ud800\u2066\r") & set(page.text)
    assert len(set(quoted(page))) == 1


@pytest.mark.parametrize(
    "content",
    [
        {}, {"calls": None}, {"calls": 5, "judge": []}, {"calls": [None, 3, [], {}]},
        {"calls": [{"messages": 3, "requests": "x", "seconds": "long", "error": {"a": 1}}]},
        {"calls": [{"requests": [None, {"reply": 4, "seconds": True, "waited": "x", "added": [1, None]}]}]},
        {"calls": [{"messages": [{"content": {"text": 1, "left_out": "x"}}], "cached": True, "reply": {"usage": 3}}]},
        {"target": {"kind": ["http"], "headers": None}, "calls": [{"arguments": None, "returned": [1, {"a": None}]}]},
        {"calls": [{"messages": [{"content": {"text": "a", "left_out": 1e300}}]}], "prompts": 0},
        {"judge": {"parameters": {"deep": [[[[1]]]]}}, "calls": [{"status": 5, "requests": [{"status": None}]}]},
    ],
)  # fmt: skip
def test_any_json_is_shown_somehow(path: Path, content: Any) -> None:
    run = stored(path, content)
    assert "Traces" in text_of(page_of(path, run, "?trace=m"))


def test_long_texts_and_many_calls_are_cut_and_said(path: Path) -> None:
    long = {"text": "x" * 90_000, "left_out": 4_910_000}
    request = {"status": "ok", "reply": {"text": "short"}}
    calls = [{"messages": [{"role": "user", "content": long}], "requests": [request] * 201}, *[{}] * 250]
    run = stored(path, {"calls": calls})
    page = page_of(path, run)
    text = text_of(page)
    assert quoted(page)[0] == "x" * SHOWN and "70,000 more characters are not shown here." in text
    assert "4,910,000 more characters are not kept." in text
    assert "1 more requests are not shown here." in text and "51 more calls are not shown here." in text
    many = stored(path, {"calls": [{"messages": [{"role": "user", "content": "y" * 90_000}]}] * 150})
    assert len(page_of(path, many).text) < 2_000_000


def test_all_of_it_comes_as_json(path: Path) -> None:
    content = {"calls": [{"messages": [{"role": "user", "content": "\ud800<b>é"}]}]}
    run = stored(path, content)
    found = client(path).get(f"/runs/{run}/rows/1/trace.json")
    assert found.headers["content-type"] == "application/json"
    assert json.loads(found.text) == [{"row": 1, "evaluator": "m", "repeat": 0, "content": content}]
    assert client(path).get(f"/runs/{run}/rows/7/trace.json").text == "[]"
    assert client(path).get("/runs/none/rows/1/trace.json").status_code == 404


def test_the_page_of_a_run_says_what_its_traces_take(path: Path) -> None:
    run = judged(path, lambda request: GOOD)
    with Store(path) as store:
        keep_traces(store.run(run.id), [StoredTrace(1, "x", content={"a": "".join(map(chr, range(33, 9000)))})])
    assert re.search(r"Traces about \d+ kB", text_of(client(path).get(f"/runs/{run.id}")))
    without = judged(path, lambda request: GOOD, keep_prompts=False)
    assert "Traces about 1 kB, without prompts" in text_of(client(path).get(f"/runs/{without.id}"))
    with ChatServer(lambda request: GOOD) as server, Store(path) as store:
        given = {"model_config": {"model": "m", "base_url": server.url}, "progress": False}
        for run_id, keep in ((run.id, False), (without.id, True)):
            rescore_run(store, run_id, ["gpt_coherence"], keep_prompts=keep, **given)
            assert re.search(r"Traces about \d+ kB, some without prompts", text_of(client(path).get(f"/runs/{run_id}")))
    assert "Traces" not in text_of(client(path).get(f"/runs/{stored(path, None, JUDGED)}"))


@pytest.mark.parametrize(
    ("size", "words"), [(0, "1 kB"), (1499, "1 kB"), (999_499, "999 kB"), (1e6, "1 MB"), (2.5e9, "2.5 GB")]
)
def test_sizes_in_words(size: float, words: str) -> None:
    assert size_in_words(size) == words
