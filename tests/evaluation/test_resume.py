"""Runs that go on: killed, stopped, changed, and scored by more."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import ChatServer, Request
from valor_gpu.errors import InputError, LeaseError
from valor_gpu.evaluation.evaluators.base import evaluator
from valor_gpu.evaluation.run import evaluate, rescore_run, resume_run
from valor_gpu.store import Store

CONCURRENCY = 4
RATED = '{"reason": "-", "score": 4}'
_CHILD = """
import json, sys
from valor_gpu import evaluate
evaluate(**json.loads(sys.argv[1]))
"""
_TARGET = """
import os, time
def answer(question):
    with open(os.environ["CALLS"], "a+") as calls:
        calls.write(question + "\\n")
        calls.seek(0)
        while len(calls.readlines()) > 25 and not os.path.exists(os.environ["CALLS"] + ".go"):
            time.sleep(0.01)
            calls.seek(0)
    return "answer to " + question
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def write_rows(folder: Path, count: int, chat: bool = False) -> str:
    file = folder / "rows.jsonl"
    cited = {"citations": [{"id": "1", "content": "c"}]}
    rows: list[dict[str, Any]] = []
    for number in range(count):
        turns = [
            message
            for turn in range(3)
            for message in (
                {"role": "user", "content": f"row {number:03} turn {turn}"},
                {"role": "assistant", "content": f"reply {number:03} {turn}", "context": cited},
            )
        ]
        plain = {"question": f"question {number:03}", "answer": f"answer {number:03}", "ground_truth": "answer"}
        rows.append({"messages": turns} if chat else plain)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


class Held:
    """A judge that answers so many requests, and the others when it is let go."""

    def __init__(self, free: int) -> None:
        self.free, self.go = free, threading.Event()

    def __call__(self, request: Request) -> str:
        """Answers a request."""
        if request.number >= self.free:
            self.go.wait(120)
        return RATED


def kill_when(child: subprocess.Popen[bytes], reached: Any) -> None:
    """Kills a process without notice when ``reached`` is true."""
    deadline = time.monotonic() + 120
    while not reached():
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()


def asked(server: ChatServer) -> Counter[str]:
    return Counter(json.dumps(request.body["messages"]) for request in server.requests)


@pytest.mark.parametrize("cached", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("chat", [pytest.param(False, marks=pytest.mark.slow), True])
def test_kill_and_resume_lose_nothing_and_repeat_little(tmp_path: Path, store: Store, cached: bool, chat: bool) -> None:
    count = 20 if chat else 60
    data = write_rows(tmp_path, count, chat)
    metrics = ["gpt_groundedness"] if chat else ["gpt_coherence", "gpt_fluency", "f1_score"]
    questions = count * 3 if chat else count * 2
    wanted = random.randrange(questions // 4, questions - questions // 4)
    held = Held(wanted)
    with ChatServer(held) as server:
        given = {
            "data": data, "metrics_list": metrics, "model_config": {"model": "m", "base_url": server.url},
            "store": str(store.path), "max_concurrency": CONCURRENCY, "evaluation_name": "killed",
            "cache": str(tmp_path / "cache.sqlite") if cached else None,
        }  # fmt: skip
        child = subprocess.Popen([sys.executable, "-c", _CHILD, json.dumps(given)])
        kill_when(child, lambda: len(server.requests) >= wanted)
        run = store.run("killed")
        assert run.state == "running"
        before = {(score.row, score.evaluator): score for score in run.scores()}
        sent = asked(server)
        held.go.set()
        result = resume_run(store, "killed")
        after = {(score.row, score.evaluator): score for score in result.run.scores()}
        repeated = sum(number - 1 for number in asked(server).values())
        assert len(asked(server)) == questions and repeated <= CONCURRENCY
    assert result.run.state == "finished" and len(after) == count * len(metrics)
    assert before.items() <= after.items() and len(sent) < questions
    assert not list(tmp_path.glob("*.replies*"))


def test_kill_and_resume_call_the_target_again_for_nothing_stored(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls.txt"
    monkeypatch.setenv("CALLS", str(calls))
    (tmp_path / "app.py").write_text(_TARGET)
    given = {
        "data": write_rows(tmp_path, 60), "target": f"{tmp_path / 'app.py'}:answer", "metrics_list": ["f1_score"],
        "store": str(store.path), "max_concurrency": CONCURRENCY, "evaluation_name": "killed",
    }  # fmt: skip
    child = subprocess.Popen([sys.executable, "-c", _CHILD, json.dumps(given)])
    kill_when(child, lambda: calls.exists() and calls.read_text().count("\n") >= 25 and store.run("killed").rows())
    stored = {row.number: row for row in store.run("killed").rows()}
    Path(f"{calls}.go").touch()
    result = resume_run(store, "killed")
    called = Counter(calls.read_text().split("\n")[:-1])
    assert len(called) == 60 and sum(called.values()) <= 60 + CONCURRENCY
    assert result.run.counts() == {"ok": 60} and result.summary["evaluators"]["f1_score"]["n"] == 60
    assert stored.items() <= {row.number: row for row in result.run.rows()}.items() and stored


def test_a_run_that_lives_is_not_resumed(tmp_path: Path, store: Store) -> None:
    result = evaluate(data=write_rows(tmp_path, 3), metrics_list=["f1_score"], store=store)
    other = Store(store.path)
    with other.run(result.run_id).lease(), pytest.raises(LeaseError, match="worked on by this process"):
        resume_run(store, result.run_id)
    other.close()


def test_resume_of_a_finished_run_asks_nothing(tmp_path: Path, store: Store) -> None:
    calls: list[Any] = []

    def judge(messages: Any) -> str:
        calls.append(messages)
        return '{"reason": "-", "score": 4}'

    data = write_rows(tmp_path, 5)
    first = evaluate(data=data, metrics_list=["gpt_coherence"], judge=judge, store=store)
    again = evaluate(resume=first, judge=judge, store=store)
    assert len(calls) == 5 and again.run_id == first.run_id and again.metrics_summary == first.metrics_summary


def test_failures_that_may_have_gone_are_tried_again(tmp_path: Path, store: Store) -> None:
    down = True

    def target(question: str) -> str:
        if down and question.endswith("1"):
            raise OSError("no route")
        return question

    rows = [{"question": f"question {number}", "ground_truth": "question"} for number in range(4)]
    first = evaluate(data=rows, target=target, metrics_list=["f1_score"], store=store)
    assert first.run.counts() == {"ok": 3, "target_error": 1}
    down = False
    again = resume_run(store, first.run_id, target=target)  # the store has all rows, so that it needs no data
    assert again.run.counts() == {"ok": 4} and again.summary["evaluators"]["f1_score"]["n"] == 4


def test_what_has_changed_is_an_error(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_rows(tmp_path, 4)

    def mine(answer: str) -> float:
        return len(answer)

    def target(question: str) -> str:
        return question

    result = evaluate(data=data, target=target, evaluators=[mine, "f1_score"], store=store)
    with pytest.raises(InputError, match="'mine' again, since it was an object"):
        resume_run(store, result.run_id, target=target)
    with pytest.raises(InputError, match="target 'target' cannot be made again"):
        resume_run(store, result.run_id, evaluators=[mine])
    changed: Any = {}
    exec("def target(question):\n    return 'x'\ndef mine(answer):\n    return 1.0\n", changed)
    with pytest.raises(InputError, match=r"these have changed: 'mine' \(was "):
        resume_run(store, result.run_id, target=target, evaluators=[changed["mine"]])
    with pytest.raises(InputError, match="start a new run for what has changed"):
        resume_run(store, result.run_id, target=changed["target"], evaluators=[mine])
    with pytest.raises(InputError, match="did you mean 'evaluators'"):
        resume_run(store, result.run_id, evaluator=[mine])
    with pytest.raises(InputError, match="'others', which is none of the run"):
        resume_run(store, result.run_id, target=target, evaluators={"others": mine})
    assert resume_run(store, result.run_id, target=target, evaluators=[mine]).state == "finished"
    with open(data, "a") as file:
        file.write('{"question": "new"}\n')
    with pytest.raises(InputError, match="the data have changed, start a new run"):
        resume_run(store, result.run_id, target=target, evaluators=[mine])
    os.remove(data)
    again = resume_run(store, result.run_id, target=target, evaluators=[mine])  # the store has all rows
    assert again.state == "finished"
    with store._database.write() as connection:
        connection.execute("DELETE FROM rows WHERE number = 4")
        connection.execute("DELETE FROM totals")  # as if the run had not ended
    with pytest.raises(InputError, match="data must be given again"):
        resume_run(store, result.run_id, target=target, evaluators=[mine])


CHANGES: dict[str, tuple[Callable[[list[dict[str, Any]]], list[dict[str, Any]]], str]] = {
    "edited": (lambda rows: [rows[0], {**rows[1], "ground_truth": "x"}, *rows[2:]], "row 2 has another 'ground_truth'"),
    "reordered": (lambda rows: rows[::-1], "row 1 has another 'question', 'ground_truth'"),
    "added": (lambda rows: [*rows, rows[0]], "the stored rows are the same; 4 rows were there, now there are 5"),
    "removed": (lambda rows: rows[1:], "row 1 has another .*; 4 rows were there, now there are 3"),
    "cut": (lambda rows: rows[:2], "row 3 is not there any more; 4 rows were there, now there are 2"),
    "renamed": (lambda rows: [{"q" if name == "question" else name: row[name] for name in row} for row in rows],
                "they have no column 'question'"),
    "wider": (lambda rows: [{**row, "more": 1} for row in rows], "they have the column 'more', too"),
}  # fmt: skip


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_in_the_data_is_told(change: str, as_file: bool, tmp_path: Path, store: Store) -> None:
    def put(rows: list[dict[str, Any]]) -> Any:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(tmp_path / "a.jsonl") if as_file else rows

    rows = [{"question": f"q{number}", "ground_truth": f"t{number}"} for number in range(4)]
    first = evaluate(data=put(rows), target=lambda question: "t1", metrics_list=["exact_match"], store=store)
    changed, told = CHANGES[change]
    with pytest.raises(InputError, match=rf"the data have changed, start a new run \({told}\)"):
        resume_run(store, first.run_id, data=put(changed(rows)))
    assert [row.inputs for row in store.run(first.run_id).rows()] == rows


def test_a_file_that_is_read_otherwise_is_other_data(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.csv").write_text("question,ground_truth\tx,y\nq,t\t1,z\n")
    first = evaluate(data=tmp_path / "a.csv", target=lambda question: "t", metrics_list=["exact_match"],
                     data_mapping={"ground_truth": "y"}, store=store)  # fmt: skip
    (tmp_path / "a.tsv").write_bytes((tmp_path / "a.csv").read_bytes())
    with pytest.raises(InputError, match=r"is read otherwise: .*they have no column 'question'"):
        resume_run(store, first.run_id, data=tmp_path / "a.tsv")


def test_arguments_of_a_run_that_goes_on_are_its_own(store: Store) -> None:
    rows = [{"id": str(number), "question": "q", "text": "t", "other": "t"} for number in range(4)]

    def target(question: str) -> str:
        return "t"

    kept: dict[str, Any] = {
        "metrics_list": ["exact_match"], "data_mapping": {"ground_truth": "${data.text}"}, "key": "id",
        "limit": 3, "seed": 7, "thresholds": {"exact_match": 0.5}, "task_type": "qa", "epochs": 2,
    }  # fmt: skip
    first = evaluate(data=rows, target=target, store=store, **kept)
    assert evaluate(resume=first.run_id, data=rows, target=target, store=store, **kept).run_id == first.run_id
    same = {**kept, "data_mapping": {"ground_truth": "text", "answer": "${target.answer}"}}
    assert evaluate(resume=first.run_id, data=rows, target=target, store=store, **same).state == "finished"
    for name, value in {
        "metrics_list": ["exact_match", "f1_score"], "data_mapping": {"ground_truth": "other"}, "key": "question",
        "limit": 4, "seed": 8, "thresholds": {"exact_match": 1}, "task_type": "chat", "epochs": 3, "repeats": 2,
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=rf"^{name}.* must .*of the run that goes on, .*leave it out"):
            evaluate(resume=first.run_id, data=rows, target=target, store=store, **{**kept, name: value})
    assert store.run(first.run_id).counts() == {"ok": 6}


def test_another_judge_is_another_run(tmp_path: Path, store: Store) -> None:
    with ChatServer(lambda request: RATED) as server:
        config = {"model": "one", "base_url": server.url}
        data = write_rows(tmp_path, 2)
        result = evaluate(data=data, metrics_list=["gpt_coherence"], model_config=config, store=store)
        with pytest.raises(InputError, match="start a new run for another judge"):
            resume_run(store, result.run_id, model_config={**config, "model": "two"})
        assert resume_run(store, result.run_id).state == "finished"
        config = {**config, "api_key": "a-key-by-value-0"}
        result = evaluate(data=data, metrics_list=["gpt_coherence"], model_config=config, store=store)
        with pytest.raises(InputError, match="its key was given by value"):
            resume_run(store, result.run_id)
        assert resume_run(store, result.run_id, model_config=config).state == "finished"


def test_rescore_adds_metrics_without_the_target(tmp_path: Path, store: Store) -> None:
    calls: list[str] = []

    def target(question: str) -> dict[str, str]:
        calls.append(question)
        return {"answer": question, "style": "plain"}

    def plain(style: str) -> float:
        return float(style == "plain")

    result = evaluate(data=write_rows(tmp_path, 3), target=target, metrics_list=["f1_score"], store=store)
    judge = lambda messages: '{"reason": "-", "score": 2}'  # noqa: E731
    more = rescore_run(
        store, result.run_id, ["gpt_coherence", plain, "f1_score"], judge=judge, thresholds={"gpt_coherence": 2}
    )
    assert len(calls) == 3 and more.run.state == "finished"
    assert more.metrics_summary["mean_gpt_coherence"] == 2.0 and more.metrics_summary["mean_plain"] == 1.0
    config = store.run(result.run_id).config
    assert [each["name"] for each in config["evaluators"]] == ["f1_score", "gpt_coherence", "plain"]
    assert config["thresholds"] == {"gpt_coherence": 2} and config["judge"]["kind"] == "callable"
    assert config["target"]["name"] == "target" and "scored later by gpt_coherence, plain" in config["notes"]
    with pytest.raises(InputError, match="must name a metric"):
        rescore_run(store, result.run_id)
    with pytest.raises(InputError, match="'colour' is needed by painted"):
        rescore_run(store, result.run_id, evaluators={"painted": lambda colour: 1.0})
    with pytest.raises(InputError, match="these have changed: 'f1_score'"):
        rescore_run(store, result.run_id, evaluators=[_other("f1_score")])


def _other(name: str) -> Any:
    found = evaluator(name)
    found.code = "of another time"
    return found


def test_evaluators_that_can_be_loaded_are_made_again(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", "a-key-of-the-environment")
    (tmp_path / "own.py").write_text("def brevity(answer, unit=1):\n    return unit / len(answer)\n")
    (tmp_path / "tone.md").write_text("Rate the tone of {{answer}} from 1 to 5.")
    named = f"{tmp_path / 'own.py'}:brevity"
    data = write_rows(tmp_path, 3)
    with ChatServer(lambda request: RATED) as server:
        result = evaluate(
            data=data, metrics_list=["exact_match", str(tmp_path / "tone.md")], evaluators={"short": named},
            metric_params={"exact_match": {"ignore_case": True}, "tone": {"scale": [1, 9]}, "short": {"of": "letters"}},
            model_config={"model": "m", "base_url": server.url, "api_key_env": "OWN_KEY"}, store=store,
        )  # fmt: skip
        described = {each["name"]: each for each in result.run.config["evaluators"]}
        assert set(described) == {"exact_match", "tone", "short"} and described["tone"]["high"] == 9
        assert resume_run(store, result.run_id).state == "finished"
    (tmp_path / "tone.md").write_text("Rate the kindness of {{answer}} from 1 to 5.")
    with pytest.raises(InputError, match="these have changed: 'tone'"):
        resume_run(store, result.run_id)


def test_a_run_goes_on_with_the_parameters_that_it_had(store: Store) -> None:
    rows = [{"answer": "a duck"}]
    given: dict[str, Any] = {"data": rows, "evaluators": ["contains"], "store": store}
    first = evaluate(**given, metric_params={"contains": {"texts": ("duck",)}})
    for again in (given, {**given, "metric_params": {"contains": {"texts": ["duck"]}}}):
        assert evaluate(**again, resume=first.run_id).metrics_summary == first.metrics_summary
    with pytest.raises(InputError, match=r"metric_params\['contains'\] .*duck.*swan"):
        evaluate(**given, metric_params={"contains": {"texts": ["swan"]}}, resume=first.run_id)
