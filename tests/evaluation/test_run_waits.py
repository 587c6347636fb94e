"""Runs in which some rows wait for other tries: the others go on, and the run says why it is not at its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.proof.scripted import ScriptedJudge
from tests.judge.server import Answer, ChatServer, Request, failure
from valor_gpu import evaluate
from valor_gpu.evaluation import resume_run
from valor_gpu.judge import Limits, Progress
from valor_gpu.store import Store

pytest.importorskip("openai")
METRICS = ["gpt_coherence", "gpt_fluency", "violence", "sexual", "self_harm"]  # a window of a few rows
WAIT = 1.0  # seconds before every retry


@pytest.fixture(autouse=True)
def _equal_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Limits.wait_before
    monkeypatch.setattr(Limits, "wait_before", lambda *given: None if inner(*given) is None else WAIT)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"question": f"number {at}?", "answer": f"It is item{at}x.", "ground_truth": "x"} for at in range(count)]


def item_of(request: Request) -> int:
    (number,) = re.findall(r"item(\d+)x", str(request.body))
    return int(number)


def test_a_prompt_that_fails_does_not_hold_up_the_rows_behind_it(tmp_path: Path) -> None:
    """Of a few rows only, as many as the window has, every one of the first 20 has a judgement that fails."""
    broken = [True]

    def score(name: str, request: Request) -> float | Answer:
        fails = broken[0] and name == "violence" and item_of(request) < 20
        return failure(500, "worker crashed") if fails else 4

    shown: list[Progress] = []
    store = tmp_path / "store.sqlite"
    with ScriptedJudge(score) as judge:
        with pytest.warns(UserWarning, match="a prompt failed [0-9]+ times while the server answered others"):
            result = evaluate(
                data=rows(120), metrics_list=METRICS, model_config=judge.config, max_concurrency=4, store=store,
                progress=shown.append,
            )  # fmt: skip
        asked = [item_of(request) for request in judge.requests]
        assert asked.index(119) < len(asked) - 10  # the last row was reached before the third tries
        assert [row.get("violence_status", "ok") for row in result.rows] == ["server_error"] * 20 + ["ok"] * 100
        assert result.metrics_summary["mean_gpt_fluency"] == 4.0
        assert any(one.waiting and "worker crashed" in one.problem for one in shown)
        broken[0] = False
        with Store(store) as opened:
            again = resume_run(opened, result.run_id, model_config=judge.config)
            assert again.metrics_summary["mean_violence"] == 4.0 and not again.errors


def test_a_row_whose_target_is_tried_again_leaves_its_slot_to_others(tmp_path: Path) -> None:
    def respond(request: Request) -> Answer:
        number = int(request.body["question"].split()[1][:-1])
        return Answer(500, {"error": "crashed"}) if number == 0 else Answer(body={"answer": "x"})

    with ChatServer(respond) as server:
        result = evaluate(
            data=[{"question": f"number {at}?", "ground_truth": "x"} for at in range(60)],
            target={"url": server.root}, metrics_list=["exact_match"], max_concurrency=1,
            store=tmp_path / "store.sqlite",
        )  # fmt: skip
    asked = [int(request.body["question"].split()[1][:-1]) for request in server.requests]
    assert asked[:3] == [0, 1, 2] and asked.count(0) >= 3
    assert asked.index(0, 1) > 10  # others were answered while it waited
    assert result.summary["rows"]["failed"] == {"target_error": 1}
