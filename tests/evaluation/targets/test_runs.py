"""Targets, prompts and saved evaluators in whole runs: failures, resumption, grids, and no key in any file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, completion
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators import saved as library
from valor_gpu.evaluation.run import evaluate, resume_run
from valor_gpu.store import Store

pytest.importorskip("openai")
pytest.importorskip("jinja2")
ROWS = [{"id": str(n), "question": f"q{n}", "ground_truth": f"a{n}"} for n in range(6)]
KEYS = ("a-named-key/123+4", "a-key-by-value-567", "a-judge-key-89012")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("MY_RUN_KEY", KEYS[0])
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


class Bot:
    """An endpoint that fails for some questions, and echoes what it got."""

    def __init__(self) -> None:
        self.broken = {"q2", "q4"}
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Answer:
        question = request.body["q"]
        self.asked.append(question)
        if question in self.broken:
            return Answer(400, {"got": {**request.headers, "path": request.path}})
        return Answer(body={"text": "a" + question[1:]})


def target_at(server: ChatServer, **headers: str) -> dict[str, Any]:
    address = f"{server.root}/ask?code=${{env:MY_RUN_KEY}}"
    named = {"Authorization": "Bearer ${env:MY_RUN_KEY}", **headers}
    return {"url": address, "headers": named, "body": {"q": "${question}"}, "answer": "text"}


def test_rows_that_failed_are_asked_again_by_a_resumed_run(store: Store) -> None:
    bot = Bot()
    with ChatServer(bot) as server:
        first = evaluate(data=ROWS, target=target_at(server), evaluators=["exact_match"], store=store)
        rows = {row["id"]: row for row in first.rows}
        assert [rows[n]["_status"] for n in ("2", "4")] == ["target_error"] * 2 and "HTTP 400" in rows["2"]["_error"]
        assert first.metrics_summary["mean_exact_match"] == 1.0 and len(bot.asked) == 6
        bot.broken, bot.asked = set(), []
        again = resume_run(store, first.run_id, data=ROWS)
    assert sorted(bot.asked) == ["q2", "q4"]
    assert {row["answer"] for row in again.rows} == {f"a{n}" for n in range(6)}


def test_the_data_mapping_fills_parameters_of_the_target_also_when_resumed(store: Store) -> None:
    rows = [{"q": "a", "truth": "A"}, {"q": "b", "truth": "B"}]
    failing = {"b"}

    class Upper:
        def __call__(self, question: str) -> str:
            if question in failing:
                raise ValueError("not now")
            return question.upper()

    mapping = {"questions": "q", "y_test": "${data.truth}"}
    target = Upper()
    first = evaluate(data=rows, target=target, data_mapping=mapping, evaluators=["exact_match"], store=store)
    assert [row.get("answer") for row in first.rows] == ["A", None]
    failing.clear()
    again = resume_run(store, first.run_id, data=rows, target=target)
    assert [row["answer"] for row in again.rows] == ["A", "B"] and again.metrics_summary["mean_exact_match"] == 1.0


def test_no_key_is_in_any_file(store: Store, tmp_path: Path, log: io.StringIO) -> None:
    with ChatServer(Bot()) as server, ChatServer(lambda request: Answer(400, {"got": request.headers})) as judge:
        config = {"model": "m", "base_url": judge.url, "api_key": KEYS[2]}
        target = target_at(server, **{"X-Api-Key": KEYS[1]})
        with pytest.warns(UserWarning, match="has a score of gpt_fluency; 4 bad_request") as told:
            result = evaluate(data=ROWS, target=target, evaluators=["gpt_fluency"], model_config=config, store=store,
                              output_path=tmp_path / "out")  # fmt: skip
        with pytest.raises(InputError, match="had a secret by value: pass target="):
            resume_run(store, result.run_id, data=ROWS, model_config=config)
    assert server.requests[0].headers["x-api-key"] == KEYS[1] and KEYS[2] in judge.requests[0].headers["authorization"]
    store.close()
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    texts.append(log.getvalue().encode() + str(told[0].message).encode())
    assert len(texts) > 4 and any(b"***" in text for text in texts)
    for key in (*KEYS, "a-named-key%2F123%2B4"):
        assert not any(key.encode() in text for text in texts)


def test_a_grid_of_prompts_and_models(store: Store) -> None:
    with ChatServer(lambda request: completion(f"{request.body['model']} {request.text}")) as server:
        results = evaluate(
            data=ROWS[:2], target={"model": "m", "base_url": server.url, "prompt": "{{question}}"}, store=store,
            params_grid={"prompt": ["say {{question}}", "{{question}}!"], "model": ["small", "large"]},
            evaluators=["length"],
        )  # fmt: skip
    answers = [sorted(row["answer"] for row in result.rows) for result in results]
    assert answers == [
        [f"{model} {before}q{n}{behind}" for n in range(2)]
        for before, behind in (("say ", ""), ("", "!")) for model in ("small", "large")
    ]  # fmt: skip
    versions = {result.run.config["target"]["version"] for result in results}
    assert len(versions) == 4


def test_prompts_and_saved_evaluators_are_metrics_of_a_run(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tone.jinja2").write_text("Rate from 1 to 5: {{ response }}")
    library.save_evaluator(store, "same_text", "exact_match", parameters={"ignore_case": True})
    rows = [{"answer": "A", "ground_truth": "a"}, {"answer": "b", "ground_truth": "c"}]

    def judge(messages: Any) -> str:
        return "4" if messages[-1]["content"].endswith("A") else "2"

    result = evaluate(
        data=rows, evaluators=["same_text", str(tmp_path / "tone.jinja2")], store=store, judge=judge,
        metric_params={"tone": {"scale": [1, 4]}},
    )  # fmt: skip
    assert result.metrics_summary == {"mean_same_text": 0.5, "mean_tone": 3.0}
    described = {each["name"]: each for each in result.run.config["evaluators"]}
    assert described["same_text"]["origin"] == "same_text@1" and described["tone"]["kind"] == "prompt"
    assert described["tone"]["high"] == 4
    library.save_evaluator(store, "same_text", "exact_match")
    assert resume_run(store, result.run_id, data=rows, judge=judge).metrics_summary == result.metrics_summary
    (tmp_path / "tone.jinja2").write_text("Rate from 1 to 4: {{ response }}")
    with pytest.raises(InputError, match="tone"):
        resume_run(store, result.run_id, data=rows, judge=judge)
