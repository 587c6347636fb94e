"""Traces of scores by embeddings: the texts of the row, and the requests that they were sent in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, failure
from tests.web.pages import client, text_of
from valor_gpu.evaluation.run import evaluate, resume_run
from valor_gpu.store import Run, Store, StoredRow, StoredScore, StoredTrace
from valor_gpu.store.traces import traces_of
from valor_gpu.web.rows.traces import row_traces

pytest.importorskip("openai")
KEY = "sk-of-the-vectors-0123"


def vectors(request: Request) -> Answer:
    texts = request.body["input"]
    data = [{"index": at, "embedding": [1.0, float(len(text)), 2.0]} for at, text in enumerate(texts)]
    usage = {"prompt_tokens": 3 * len(texts), "total_tokens": 3 * len(texts)}
    return Answer(body={"data": data, "model": "vectors-1", "usage": usage})


def rows_of(n: int) -> list[dict[str, Any]]:
    return [{"answer": f"answer {at}", "ground_truth": [f"truth {at}", f"other {at}"]} for at in range(n)]


def only_trace(run: Run, row: int) -> StoredTrace:
    [found] = traces_of(run, row)
    return found


@pytest.mark.parametrize("keeps", [True, False])
def test_each_row_has_its_texts_and_requests(tmp_path: Path, keeps: bool) -> None:
    with ChatServer(vectors) as server, Store(tmp_path / "s.sqlite") as store:
        config = {"base_url": server.url, "model": "m", "api_key": KEY, "batch": 16}
        run = evaluate(data=rows_of(20), metrics_list=["ada_similarity", "f1_score"], store=store,
                       embedding_config=config, keep_prompts=keeps).run  # fmt: skip
        sent = [request.body["input"] for request in server.requests]
        assert len(sent) == 4
        for row in run.stream_rows():
            content = only_trace(run, row.number).content
            [call] = content["calls"]
            texts = [row.inputs["answer"], *row.inputs["ground_truth"]]
            named = list(zip(["answer", "ground_truth", "ground_truth"], texts))
            expected = [{"role": name, "content": text} for name, text in named]
            assert call.get("messages", []) == (expected if keeps else [])
            batches = [batch for batch in sent if set(batch) & set(texts)]
            assert [each["texts"] for each in call["requests"]] == [len(batch) for batch in batches]
            for each, batch in zip(call["requests"], batches):
                assert (each["status"], each["model"], each["size"]) == ("ok", "vectors-1", 3)
                assert each["usage"]["prompt"] == 3 * len(batch) and each["seconds"] > 0.0 and "retries" not in each
            assert content["embedding"]["model"] == "m" and call["status"] == "ok" and content["prompts"] is keeps
            assert KEY not in json.dumps(content)
        assert KEY.encode() not in (tmp_path / "s.sqlite").read_bytes()


def test_failures_and_retries_are_told(tmp_path: Path) -> None:
    seen: list[str] = []
    down = True

    def respond(request: Request) -> Answer:
        texts = request.body["input"]
        if down and "answer 3" in texts:
            return failure(400, f"no vectors for {KEY}")
        seen.append(texts[0])
        return failure(500, "busy") if len(seen) == 1 else vectors(request)

    with ChatServer(respond) as server, Store(tmp_path / "s.sqlite") as store:
        config = {"base_url": server.url, "model": "m", "api_key": KEY, "batch": 9}
        given = {"data": rows_of(6), "embedding_config": config}
        run = evaluate(metrics_list=["ada_similarity"], store=store, **given).run
        [first], [fourth] = (only_trace(run, row).content["calls"] for row in (1, 4))
        assert [each.get("retries", 0) for each in first["requests"]] == [1]
        assert fourth["status"] == "bad_request" and "no vectors for ***" in fourth["error"]
        alone = [each for each in fourth["requests"] if each["texts"] == 1 and each["status"] == "bad_request"]
        assert len(alone) == 1 and "HTTP 400" in alone[0]["error"] and KEY not in json.dumps(fourth)
        before = only_trace(run, 1)
        shown, failed = (row_traces(run, row, run.scores(first=row, last=row))[0] for row in (1, 4))
        assert shown["line"].startswith("1 call, 1 request with 9 texts of several rows, 1 retry")
        assert shown["asked"][1:3] == [("model", "m"), ("base url", server.url)]
        [request] = shown["calls"][0]["requests"]
        facts = {"texts": "9", "model": "vectors-1", "tokens of all of them": "27", "numbers of a vector": "3"}
        assert dict(request["facts"][:5]) == {**facts, "sent again": "1"} and request["reply"] is None
        assert "bad request" in failed["line"] and failed["missing"] == ""
        down = False
        resume_run(store, run.id, **given)
        [again] = only_trace(run, 4).content["calls"]
        assert again["status"] == "ok" and [each["texts"] for each in again["requests"]] == [3]
        assert only_trace(run, 1) == before


def test_a_row_without_a_text_asks_nobody(tmp_path: Path) -> None:
    rows = [*rows_of(2), {"answer": None, "ground_truth": "x"}, {"answer": "", "ground_truth": ""}]
    with ChatServer(vectors) as server, Store(tmp_path / "s.sqlite") as store:
        config = {"base_url": server.url, "model": "m"}
        run = evaluate(data=rows, metrics_list=["ada_similarity"], store=store, embedding_config=config).run
        assert [len(only_trace(run, row).content["calls"]) for row in (1, 2, 3, 4)] == [1, 1, 0, 0]


def test_the_page_of_a_row_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with ChatServer(vectors) as server, Store(path) as store:
        config = {"base_url": server.url, "model": "m"}
        run = evaluate(data=rows_of(2), metrics_list=["ada_similarity"], store=store, embedding_config=config).run
        old = store.create_run("old", {**run.config})
        old.add_rows([StoredRow(1, "a", {"answer": "a", "ground_truth": "b"})])
        old.add_scores([StoredScore(1, "ada_similarity", 0, 0.5)])
    browser = client(path)
    text = text_of(browser.get(f"/runs/{run.id}/rows/1?trace=ada_similarity"))
    for said in ("ada_similarity 1 call, 1 request with 6 texts of several rows", "Answer", "answer 0", "other 0",
                 "texts 6 · model vectors-1 · tokens of all of them 18 · numbers of a vector 3 · time"):  # fmt: skip
        assert said in text, said
    assert "not kept" in text_of(browser.get(f"/runs/{old.id}/rows/1"))


def test_a_function_that_asks_nobody_leaves_no_trace(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = evaluate(data=rows_of(3), metrics_list=["ada_similarity"], store=store,
                       embedding_config=lambda texts: [[1.0, float(len(each))] for each in texts]).run  # fmt: skip
        assert [traces_of(run, row) for row in (1, 2, 3)] == [[], [], []]
