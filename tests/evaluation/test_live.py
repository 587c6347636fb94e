"""How far a run is: running sums that equal a recount of the store at every moment, and what a page reads of them."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError, LeaseError, StoreError
from valor_gpu.evaluation.engine import live as engine_live
from valor_gpu.evaluation.engine.live import Live
from valor_gpu.evaluation.report import distributions
from valor_gpu.evaluation.results.summary import evaluator_infos, run_summary
from valor_gpu.evaluation.run import EvaluationInterrupted, evaluate, rescore_run, resume_run
from valor_gpu.evaluation.targets.base import TargetAnswer
from valor_gpu.judge import JudgeError, Limits, Reply, Status, Usage
from valor_gpu.store import Run, Store
from valor_gpu.store.database import Database
from valor_gpu.store.progress import RunProgress, keep, progress_of

PRICES = {"prompt": 100.0, "completion": 1000.0, "currency": "EUR"}
SEVERITY = "severity"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def rows_of(n: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    words = ["red", "blue", "green", "cat", "dog", "4"]
    rows = []
    for number in range(n):
        answer = " ".join(rng.choices(words, k=rng.randint(1, 4)))
        truth = None if rng.random() < 0.1 else " ".join(rng.choices(words, k=3))
        rows.append({"question": f"q{number}", "answer": answer, "ground_truth": truth, "context": "c"})
    return rows


class Judge:
    """Answers by a hash of the prompt; some prompts get nonsense, and some fail while ``fails``."""

    identity = None
    concurrency = 4

    def __init__(self, seed: int) -> None:
        self.seed, self.fails = seed, True
        self.asked: Counter[str] = Counter()

    async def __call__(self, messages: Any, schema: Any = None) -> Reply:
        text = str(messages[-1]["content"])
        self.asked[text] += 1
        rng = random.Random(f"{self.seed} {text} {self.asked[text]}")
        if self.fails and rng.random() < 0.1:
            raise JudgeError(Status.TIMEOUT, "no reply in time", max_retries=0)
        most = 7 if SEVERITY in text.lower() else 5
        if "verdict" in text.lower():
            return Reply('{"reason": "r", "verdict": "first", "status": "completed"}', Usage(5, 5))
        said = "no number" if rng.random() < 0.1 else f'{{"reason": "r", "score": {rng.randint(1, most)}}}'
        return Reply(said, Usage(rng.randint(1, 50), rng.randint(1, 9), 1))


def several(answer: str) -> Any:
    words = answer.split()
    if len(words) == 4:
        raise ValueError("four")
    return {"words": len(words), "signs": len(answer)} if len(words) > 1 else {"words": 1}


def plain_sums(run: Run, name: str) -> dict[str, Any]:
    """Sums of one evaluator by a loop over all of its scores."""
    by_row: dict[int, list[float]] = {}
    failed: Counter[str] = Counter()
    values = []
    for score in run.scores(name):
        if score.value is None:
            failed[score.status] += 1
        else:
            by_row.setdefault(score.row, []).append(score.value)
            values.append(score.value)
    means = [math.fsum(each) / len(each) for each in by_row.values()]
    return {
        "n": len(means), "sum": pytest.approx(math.fsum(means), rel=1e-9, abs=1e-9), "n_scores": len(values),
        "least": min(values, default=None), "most": max(values, default=None), "failed": dict(failed),
        "zeros": values.count(0.0), "ones": values.count(1.0),
    }  # fmt: skip


def check(live: Live, run: Run) -> RunProgress:
    """Compares the running sums with the store."""
    found = live.progress()
    names = {score.evaluator for score in run.scores()}
    assert set(found.evaluators) == names
    summary = run.summary()
    all_failed: Counter[str] = Counter()
    for name, sums in found.evaluators.items():
        expected = plain_sums(run, name)
        ends = {key: expected.pop(key) for key in ("zeros", "ones")}
        shown = {key: value for key, value in sums.items() if key in expected}
        assert {**shown, "failed": {key: n for key, n in shown["failed"].items() if n}} == expected, name
        assert sums["n"] == summary[name].n
        all_failed.update(expected["failed"])
        if (bins := sums["bins"]) is not None:
            counted = run.histogram(name, bins["edges"])
            assert (tuple(bins["counts"]), bins["below"], bins["above"]) == (
                counted.counts,
                counted.below,
                counted.above,
            )
            assert {key: bins[key] for key in ends if key in bins} == ({} if "ones" not in bins else ends)
    assert found.failed_scores == dict(all_failed)
    assert found.failed_rows == {status: n for status, n in run.counts().items() if status != "ok"}
    return found


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[RunProgress]:
    """Every progress of the runs of a test, each compared with the store when scores or rows have been kept."""
    shown: list[RunProgress] = []
    for name in ("keep_scores", "keep_rows"):
        plain = getattr(Live, name)

        def wrapped(live: Live, *given: Any, _plain: Any = plain) -> None:
            with live._lock:
                _plain(live, *given)
                shown.append(check(live, live._run))

        monkeypatch.setattr(Live, name, wrapped)
    return shown


def equals_summary(run: Run) -> RunProgress:
    """Compares the progress that a finished run keeps with its summary."""
    found = progress_of(run)
    assert found is not None
    summary = run_summary(run)
    assert found.cost == pytest.approx(summary["cost"]) if summary["cost"] is not None else found.cost is None
    assert found.tokens == {name: summary["usage"][name] for name in found.tokens}
    assert found.replaced == summary["replaced"]
    for name, facts in summary["evaluators"].items():
        sums = found.evaluators.get(name)
        if sums is None:
            assert not facts["n"] and not facts["n_failed"]
            continue
        assert (sums["n"], sums["n_scores"]) == (facts["n"], facts["n_scores"])
        if facts["mean"] is not None:
            assert sums["sum"] / sums["n"] == pytest.approx(facts["mean"])
        if "levels" in facts:
            assert sums["levels"] == facts["levels"], name
        if sums["n_passed"] is not None:
            assert sums["n_passed"] == (facts["n_passed"] if "n_passed" in facts else facts["n"] - facts["n_defects"])
    return found


METRICS = ["gpt_coherence", "violence", "f1_score", "exact_match", "corpus_bleu", several]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("repeats", [1, 3])
def test_sums_equal_a_recount_at_every_moment(
    store: Store, checked: list[RunProgress], seed: int, repeats: int
) -> None:
    judge = Judge(seed)
    how = {"judge": judge, "prices": PRICES, "store": store}
    result = evaluate(
        data=rows_of(30, seed), metrics_list=METRICS, repeats=repeats, thresholds={"f1_score": 0.5}, **how
    )
    found = equals_summary(result.run)
    assert (found.phase, found.total_rows, found.done_rows, found.eta) == ("ending", 30, 30, None)
    assert found.total_scores == found.done_scores == 30 * (2 * repeats + 4)
    assert found.failed_scores["timeout"] and found.currency == "EUR"
    assert [each.done_rows for each in checked] == sorted(each.done_rows for each in checked)
    judge.fails = False  # what failed by a timeout is asked again
    before = len(checked)
    resume_run(store, result.run_id, data=rows_of(30, seed), evaluators=[several], judge=judge)
    found = equals_summary(result.run)
    assert "timeout" not in found.failed_scores and found.done_rows == 30
    assert found.total_scores == found.done_scores == 30 * (2 * repeats + 4)
    if before < len(checked):
        assert checked[before].total_rows == 30 and checked[before].done_rows < 30
    rescore_run(store, result.run_id, ["bleu", "gpt_fluency"], judge=judge)
    found = equals_summary(result.run)
    assert (found.total_rows, found.done_rows) == (30, 30)
    assert found.total_scores == found.done_scores == 30 * (3 * repeats + 5)


@pytest.mark.parametrize("seed", range(2))
def test_a_target_that_fails_and_epochs(store: Store, checked: list[RunProgress], seed: int) -> None:
    broken = {"is": True}
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    def target(question: str) -> Any:
        with lock:
            asked[question] += 1
            turn = asked[question]
        if broken["is"] and random.Random(f"{seed} {question} {turn}").random() < 0.3:
            raise ValueError("no answer")
        return {"answer": f"red {turn}"}

    judge = Judge(seed)
    given = {"data": rows_of(12, seed), "target": target, "judge": judge}
    result = evaluate(metrics_list=["gpt_coherence", "f1_score"], epochs=2, prices=PRICES, store=store, **given)
    found = equals_summary(result.run)
    failed = found.failed_rows["target_error"]
    assert (found.total_rows, found.done_rows) == (24, 24) and 0 < failed < 24
    assert found.total_scores == found.done_scores == 2 * (24 - failed) and found.problem
    broken["is"] = judge.fails = False
    before = len(checked)
    resume_run(store, result.run_id, **given)
    found = equals_summary(result.run)
    assert found.failed_rows == {} and found.done_rows == 24 and found.total_scores == found.done_scores == 48
    assert checked[before].done_rows < 24


def test_what_a_failed_answer_cost_stays_paid(store: Store, checked: list[RunProgress]) -> None:
    broken = {"q0", "q1"}

    def paid(question: str) -> TargetAnswer:
        if question in broken:
            return TargetAnswer({}, "target_error", "cut off", usage=Usage(10, 5), cost=1.5)
        return TargetAnswer({"answer": "a"}, usage=Usage(3, 2), cost=None if question == "q2" else 0.25)

    given = {"data": rows_of(3, 0), "target": paid}
    result = evaluate(metrics_list=["length"], store=store, **given)
    assert equals_summary(result.run).cost == 3.0
    broken.discard("q0")
    resume_run(store, result.run_id, **given)
    assert equals_summary(result.run).cost == 3.0 + 1.5 + 0.25
    broken.clear()
    resume_run(store, result.run_id, **given)
    found = equals_summary(result.run)
    assert found.cost == 3.0 + 1.5 + 0.25 + 0.25
    assert (found.replaced["n"], found.replaced["cost"]) == (3, 4.5)
    assert found.replaced["usage"] == {"prompt": 30, "completion": 15, "cached": 0, "total": 45}


def test_a_stopped_run_goes_on_with_its_sums(store: Store, checked: list[RunProgress]) -> None:
    given = {"data": rows_of(40, 5), "judge": Judge(5)}
    with pytest.warns(UserWarning, match="max_cost"):
        result = evaluate(
            metrics_list=["gpt_coherence", "f1_score"], prices=PRICES, max_cost=0.05, store=store, **given
        )
    stopped = equals_summary(result.run)
    assert stopped.total_rows == 40 and 0 < stopped.done_rows < 40 and stopped.cost >= 0.05
    before = len(checked)
    resume_run(store, result.run_id, max_cost=1000.0, **given)
    found = equals_summary(result.run)
    assert checked[before].done_rows >= stopped.done_rows - len(stopped.failed_scores) and found.done_rows == 40
    assert found.seconds > stopped.seconds and found.cost > stopped.cost and found.attempts > stopped.attempts


def test_edges_are_those_of_the_finished_charts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ["gpt_coherence", "violence", "f1_score", "exact_match", "corpus_bleu", "length"]
    with_baseline = [{**row, "baseline_answer": "red"} for row in rows_of(12, 1)]
    result = evaluate(data=with_baseline, metrics_list=[*metrics, "preference"], judge=Judge(1), store=store)
    asked: dict[str, list[Any]] = {}

    def noted(run: Run, name: str, edges: Any) -> Any:
        asked.setdefault(name, []).append(list(edges))
        return plain(run, name, edges)

    plain = Run.histogram
    monkeypatch.setattr(Run, "histogram", noted)
    facts, found = result.summary["evaluators"], progress_of(result.run)
    assert found is not None
    for name in facts:
        distributions.distribution(distributions.Drawing.of(result.run), name, facts[name])
        bins = found.evaluators[name]["bins"]
        if bins is None:
            assert facts[name]["pooled"] or facts[name]["kind"] == "safety" or facts[name]["high"] is None, name
        else:
            assert bins["edges"] in asked[name] or (set(facts[name]) and "zeros" in bins), name


def test_a_run_without_a_judge_says_how_far_it_is(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("question,answer,ground_truth\n" + "q,a b,a\n" * 2500)
    result = evaluate(data=str(file), metrics_list=["f1_score"], store=store)
    found = progress_of(result.run)
    assert found is not None and result.run.config["data"]["rows"] == 2500
    assert (found.total_rows, found.done_rows, found.in_flight, found.cost) == (2500, 2500, 0, None)
    assert found.evaluators["f1_score"]["n"] == 2500 and found.attempts == 0


def test_a_judge_that_hangs_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_live, "TICK", 0.05)
    monkeypatch.setattr(engine_live, "SILENT", 0.3)
    seen: list[RunProgress] = []
    free = threading.Event()

    def judge(messages: Any) -> str:
        free.wait(150)
        return '{"reason": "r", "score": 4}'

    def is_waited_for(found: RunProgress) -> bool:
        return found.phase == "waiting" and found.in_flight == 2

    def look() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end and not (len(seen) > 3 and is_waited_for(seen[-1])):
            runs = store.runs()
            found = progress_of(store.run(runs[0].id)) if runs else None
            if found is not None and (not seen or found.at > seen[-1].at):
                seen.append(found)
            time.sleep(0.01)
        free.set()

    looking = threading.Thread(target=look)
    looking.start()
    result = evaluate(data=rows_of(6, 0), metrics_list=["gpt_coherence"], judge=judge, max_concurrency=2, store=store)
    looking.join()
    assert [each.at for each in seen] == sorted({each.at for each in seen})  # it keeps moving
    assert [each.phase for each in seen if each.in_flight][-1] == "waiting" and seen[-1].in_flight == 2
    assert seen[-1].done_scores == 0 and seen[-1].concurrency == 2
    last = progress_of(result.run)
    assert last is not None and (last.phase, last.done_rows, last.in_flight) == ("ending", 6, 0)


def test_requests_that_are_sent_again_are_counted_by_cause(store: Store) -> None:
    asked: Counter[str] = Counter()

    def judge(messages: Any) -> str:
        text = str(messages)
        asked[text] += 1
        if asked[text] == 1:
            status = Status.SERVER_ERROR if "q1" in text else Status.RATE_LIMITED
            raise JudgeError(status, "HTTP 5xx: key sk-abcdefghijklmnopqrstuvwxyz0123456789", retry_after=0.0)
        return '{"reason": "r", "score": 4}'

    result = evaluate(data=rows_of(3, 0), metrics_list=["gpt_coherence"], judge=judge, store=store)
    found = progress_of(result.run)
    assert found is not None and found.retries == {"server_error": 1, "rate_limited": 2}
    assert found.attempts == 6 and found.problem_at is not None
    assert "HTTP 5xx" in found.problem and "sk-abc" not in found.problem


def test_a_locked_store_delays_only_the_progress(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, waits = store.create_run("r", {}), []
    plain = Database._waiting

    @contextlib.contextmanager
    def waiting(self: Database, connection: sqlite3.Connection, patience: float | None) -> Iterator[None]:
        with plain(self, connection, patience):
            waits.append(connection.execute("PRAGMA busy_timeout").fetchone()[0])
            yield

    monkeypatch.setattr(Database, "_waiting", waiting)
    with run.lease(), Store(tmp_path / "store.sqlite") as other:
        keep(run, RunProgress(done_rows=1))
        with other._database.write(), pytest.raises(StoreError, match="locked it for"):
            waits.clear()
            keep(run, RunProgress(done_rows=2), patience=0.0)
        assert waits == [0], "other writings wait 30,000 ms"
        assert progress_of(run) == RunProgress(done_rows=1)


def test_a_run_that_was_taken_over_writes_no_progress(store: Store) -> None:
    run, taken = store.create_run("r", {}), store.create_run("s", {})
    with pytest.raises(LeaseError, match="another one took it over"), run.lease():
        with run._database.write() as connection:
            connection.execute("UPDATE leases SET token = 'other' WHERE run = ?", (run._number,))
        keep(run, RunProgress(done_rows=5))
    assert progress_of(run) is None and progress_of(taken) is None


def test_progress_comes_back_as_it_was(store: Store) -> None:
    run = store.create_run("r", {})
    given = RunProgress(
        at=1.5, phase="asking", total_rows=None, failed_rows={"timeout": 2}, rate=0.5, problem="é\ud800", cost=1.25,
        currency="EUR", evaluators={"f1": {"n": 1, "bins": {"edges": [0.0, 1.0], "counts": [1]}}},
    )  # fmt: skip
    keep(run, given)
    assert progress_of(run) == given
    assert RunProgress.from_dict({**given.to_dict(), "of_later": 1}) == given


def test_an_interrupted_run_keeps_how_far_it_came(store: Store) -> None:
    def interrupt(progress: Any) -> None:
        if progress.done == 7:
            raise KeyboardInterrupt

    judge, how = Judge(0), {"max_concurrency": 1, "progress": interrupt, "store": store}
    with pytest.raises(EvaluationInterrupted, match=r"^$") as raised:
        evaluate(data=rows_of(60, 0), metrics_list=["gpt_coherence"], judge=judge, **how)
    found = progress_of(raised.value.result.run)
    assert found is not None and 7 <= found.done_rows < 60 and found.done_rows == found.done_scores
    assert found.total_rows == 60 and found.phase == "ending"


def test_a_part_that_was_killed_counts_its_seconds(store: Store) -> None:
    given = {"data": rows_of(10, 0), "judge": Judge(0)}
    with pytest.warns(UserWarning, match="max_cost"):
        result = evaluate(metrics_list=["gpt_coherence"], prices=PRICES, max_cost=0.001, store=store, **given)
    before = progress_of(result.run)
    assert before is not None
    keep(result.run, RunProgress.from_dict({**before.to_dict(), "seconds": 1000.0}))  # as after a kill
    resumed = resume_run(store, result.run_id, max_cost=1e9, **given)
    found = progress_of(resumed.run)
    assert found is not None and found.seconds > 1000.0 and resumed.summary["seconds"] > 1000.0


def test_infos_of_runs_name_what_sums_need(store: Store) -> None:
    result = evaluate(data=rows_of(3, 0), metrics_list=["f1_score"], store=store)
    assert all({"kind", "low", "high", "pooled"} <= set(each) for each in evaluator_infos(result.run))


def test_computed_scores_come_while_a_judge_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.evaluation.engine.pipeline._LONGEST_WAIT", 0.2)
    free = threading.Event()
    seen: list[int] = []

    def judge(messages: Any) -> str:
        free.wait(150)
        return '{"reason": "r", "score": 4}'

    def look() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end and not (seen and seen[-1]):
            runs = store.runs()
            seen.append(sum(1 for _ in store.run(runs[0].id).scores("f1_score")) if runs else 0)
            time.sleep(0.02)
        free.set()

    looking = threading.Thread(target=look)
    looking.start()
    evaluate(data=rows_of(3, 0), metrics_list=["gpt_coherence", "f1_score"], judge=judge, store=store)
    looking.join()
    assert seen[-1] == 3


def test_a_metric_of_costs_needs_prices(store: Store) -> None:
    model = {"model": "small", "base_url": "http://127.0.0.1:9/v1", "prompt": "{{ question }}"}
    given = {"data": rows_of(2, 0), "target": model, "metrics_list": ["cost"], "store": store}
    with pytest.raises(InputError, match=r"'cost' needs what an answer costs.* target 'small' has none: give prices"):
        evaluate(**given)
    assert store.runs() == []
    with pytest.raises(InputError, match=r"prices\['currency'\] must be a text of at most 16 characters.* got 5"):
        evaluate(prices={**PRICES, "currency": 5}, **given)

    def paid(question: str) -> TargetAnswer:
        return TargetAnswer({"answer": "a"}, cost=0.25)

    found = evaluate(**{**given, "target": paid}, prices=PRICES)
    assert found.metrics_summary == {"mean_cost": 0.25} and "cost 0.5 EUR" in str(found)
    assert progress_of(found.run).cost == 0.5


def seen_while(store: Store, wanted: Any, free: threading.Event) -> threading.Thread:
    """Looks at the only run of a store, and sets an event once its progress is as wanted, after 120 s at most."""

    def look() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            runs = store.runs()
            found = progress_of(store.run(runs[0].id)) if runs else None
            if found is not None and wanted(found):
                break
            time.sleep(0.01)
        free.set()

    looking = threading.Thread(target=look)
    looking.start()
    return looking


def test_the_cause_of_a_wait_is_not_that_of_a_later_failure(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score that fails for good meanwhile explains no wait."""
    monkeypatch.setattr(engine_live, "TICK", 0.02)
    monkeypatch.setattr(Limits, "wait_before", lambda *given: 0.5)
    free = threading.Event()
    causes: list[str] = []

    def judge(messages: Any) -> str:
        if "q0" in str(messages) and not free.is_set():
            raise JudgeError(Status.SERVER_ERROR, "HTTP 500: crashed")
        return "no number" if "q1" in str(messages) else '{"reason": "r", "score": 4}'

    def wanted(found: RunProgress) -> bool:
        if found.waiting and found.failed_scores.get("parse_error"):
            causes.append(found.problem)
        return len(causes) > 3

    looking = seen_while(store, wanted, free)
    result = evaluate(data=rows_of(4, 0), metrics_list=["gpt_coherence"], judge=judge, store=store)
    looking.join()
    last = progress_of(result.run)
    assert last is not None and set(causes) == {"HTTP 500: crashed"}
    assert not last.waiting and last.problem.startswith("gpt_coherence: ")


def test_no_time_is_left_of_a_judge_that_answers_nobody(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate of the seconds before its death says nothing of the end."""
    monkeypatch.setattr(engine_live, "TICK", 0.02)
    monkeypatch.setattr(Limits, "wait_before", lambda *given: 0.2)
    free, asked = threading.Event(), Counter[str]()
    lefts: list[tuple[float | None, float | None]] = []

    def judge(messages: Any) -> str:
        asked["all"] += 1
        if asked["all"] > 5 and not free.is_set():
            raise JudgeError(Status.CONNECTION_ERROR, "no connection")
        return '{"reason": "r", "score": 4}'

    def wanted(found: RunProgress) -> bool:
        if found.waiting == 2 and sum(found.retries.values()) > 8:
            lefts.append((found.rate, found.eta))
        return len(lefts) > 3

    looking = seen_while(store, wanted, free)
    given = {"metrics_list": ["gpt_coherence"], "judge": judge, "max_concurrency": 2}
    evaluate(data=rows_of(9, 0), store=store, **given)
    looking.join()
    assert lefts and all(rate is not None and eta is None for rate, eta in lefts)
