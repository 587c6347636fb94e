"""Embeddings of a server that fails for some texts, for all, or for a while."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judge.server import Answer, ChatServer, Request, failure
from valor_gpu import evaluate
from valor_gpu.evaluation import resume_run
from valor_gpu.judge.protocol import JudgeError, Status
from valor_gpu.store import Store
from valor_gpu.text import OpenAIEmbedder, SomeFailed, served_embedding

pytest.importorskip("openai")


def vectors(request: Request) -> Answer:
    data = [{"index": at, "embedding": [1.0, float(len(text))]} for at, text in enumerate(request.body["input"])]
    return Answer(body={"data": data})


def fails_for(*words: str, status: int = 500) -> Any:
    def respond(request: Request) -> Answer:
        bad = any(word in text.split() for text in request.body["input"] for word in words)
        return failure(status, "crashed") if bad else vectors(request)

    return respond


@pytest.mark.parametrize("status", [500, 400])
def test_a_text_that_fails_alone_costs_no_other(status: int) -> None:
    texts = [f"text {at}" for at in range(100)]
    with ChatServer(fails_for("7", "63", "64", status=status)) as server:
        with pytest.raises(SomeFailed, match="3 of 100 texts have no embedding: HTTP") as caught:
            OpenAIEmbedder("m", server.url, batch=32, retries=0)(texts)
        asked = len(server.requests)
    assert sorted(caught.value.failures) == [7, 63, 64]
    assert all("crashed" in str(error) for error in caught.value.failures.values())
    expected = np.array([[0.0, 0.0] if at in (7, 63, 64) else [1.0, len(text)] for at, text in enumerate(texts)])
    assert np.array_equal(caught.value.vectors, expected)
    assert asked <= 4 + 3 * 2 * 6  # batches, and halves of halves of three of them


def test_a_server_that_is_down_is_not_asked_for_every_text() -> None:
    with ChatServer(lambda request: failure(500, "down")) as server:
        embedder = OpenAIEmbedder("m", server.url, batch=32, retries=0)
        with pytest.raises(JudgeError, match="HTTP 500") as caught:
            embedder([f"text {at}" for at in range(320)])
        assert len(server.requests) <= 10 * 3 and not isinstance(caught.value, SomeFailed)
        assert caught.value.status is Status.SERVER_ERROR


@pytest.mark.parametrize("status", [401, 404, 400])
def test_what_all_requests_share_is_asked_five_times(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(lambda request: failure(status, "no")) as server:
        embedder = OpenAIEmbedder("m", server.url, batch=4, retries=0)
        for _ in range(20):
            with pytest.raises(JudgeError, match=f"HTTP {status}"):
                embedder(["a", "b"])
        assert len(server.requests) == 5
        with pytest.raises(JudgeError, match=r"\(not asked after 5 failures in a row\)"):
            embedder(["a"])
        now = time.monotonic() + 2 * served_embedding.PAUSE
        monkeypatch.setattr(served_embedding.time, "monotonic", lambda: now)
        with pytest.raises(JudgeError, match=f"HTTP {status}"):
            embedder(["a"])
        assert len(server.requests) == 6


def test_rows_whose_texts_have_vectors_keep_their_scores(tmp_path: Path) -> None:
    rows = [{"answer": f"answer {at}", "ground_truth": [f"truth {at}", f"other {at}"]} for at in range(60)]
    with ChatServer(fails_for("7", "33")) as server:
        result = evaluate(
            data=rows, metrics_list=["ada_similarity"], store=tmp_path / "s.sqlite",
            embedding_config={"base_url": server.url, "model": "m", "retries": 0},
        )  # fmt: skip
    found = list(result.rows)
    assert [at for at, row in enumerate(found) if row["ada_similarity"] is None] == [7, 33]
    assert {found[at]["ada_similarity_status"] for at in (7, 33)} == {"server_error"}
    assert "HTTP 500" in found[7]["ada_similarity_reason"]
    assert len(server.requests) < 60


def test_a_resumed_run_asks_for_the_vectors_that_failed(tmp_path: Path) -> None:
    rows = [{"answer": f"answer {at}", "ground_truth": f"truth {at}"} for at in range(60)]
    down = True

    def respond(request: Request) -> Any:
        return failure(500, "down") if down else vectors(request)

    with ChatServer(respond) as server:
        options = {"data": rows, "embedding_config": {"base_url": server.url, "model": "m", "retries": 0}}
        with pytest.warns(UserWarning, match="has a score"):
            result = evaluate(metrics_list=["ada_similarity"], store=tmp_path / "s.sqlite", **options)
        assert {row["ada_similarity_status"] for row in result.rows} == {"server_error"}
        assert len(server.requests) <= 5  # not each row alone
        down = False
        result = resume_run(tmp_path / "s.sqlite", result.run_id, **options)
    assert result.summary["evaluators"]["ada_similarity"]["n"] == 60


@pytest.mark.parametrize("message", ["the prompt is too long", "Request Entity Too Large"])
def test_first_texts_that_are_rejected_for_what_they_are_cost_no_others(message: str) -> None:
    def respond(request: Request) -> Any:
        return failure(413, message) if "bad" in str(request.body["input"]) else vectors(request)

    with ChatServer(respond) as server, pytest.raises(SomeFailed, match="8 of 20 texts have no embedding") as caught:
        OpenAIEmbedder("m", server.url, batch=1, retries=0)([f"{'bad' if at < 8 else 'ok'} {at}" for at in range(20)])
    assert list(caught.value.failures) == list(range(8))


def test_a_server_that_hangs_costs_five_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(lambda request: Answer(hang=True)) as server:
        embedder = OpenAIEmbedder("m", server.url, batch=1, retries=0, timeout=0.05)
        with pytest.raises(JudgeError, match="timed out"):
            embedder([str(at) for at in range(40)])
        assert len(server.requests) == 5


def test_a_resumed_run_embeds_no_row_again_that_has_its_score(tmp_path: Path) -> None:
    rows = [{"answer": f"answer {at}", "ground_truth": f"truth {at}"} for at in range(40)]
    broken = [True]
    respond = fails_for("7")
    store = tmp_path / "s.sqlite"
    with ChatServer(lambda request: respond(request) if broken[0] else vectors(request)) as server:
        given = {"base_url": server.url, "model": "m", "retries": 0}
        first = evaluate(data=rows, metrics_list=["ada_similarity"], store=store, embedding_config=given)
        assert sum(row["ada_similarity"] is None for row in first.rows) == 1
        broken[0] = False
        before = len(server.requests)
        with Store(store) as opened:
            again = resume_run(opened, first.run_id, data=rows, embedding_config=given)
            assert sum(row["ada_similarity"] is None for row in again.rows) == 0
        assert [request.body["input"] for request in server.requests[before:]] == [["answer 7", "truth 7"]]
