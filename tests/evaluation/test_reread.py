"""Scores whose replies an older grammar read: read again when a run goes on, and reported where they do not hold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.run import evaluate, rescore_run, resume_run
from valor_gpu.judge import CallableJudge, Reply
from valor_gpu.judge.parse import GRAMMAR
from valor_gpu.store import Run, Store
from valor_gpu.store.score_changes import withdraw_scores

ROWS = [{"question": f"q{number}", "answer": f"a{number}"} for number in range(4)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


class Judge(CallableJudge):
    """Replies by the same text, and counts."""

    def __init__(self, text: str) -> None:
        self.asked = 0

        def reply(messages: Any) -> str:
            self.asked += 1
            return text

        super().__init__(reply, name="the same")


def made_older(run: Run, values: dict[int, float]) -> None:
    """Gives a run the marks of an older grammar, and rows the values that it read."""
    config = {name: value for name, value in run.config.items() if name != "grammar"}
    scores = [score for score in run.scores() if score.row in values]
    with run.lease():
        withdraw_scores(run, scores, "cancelled", "")
        run.add_scores([replace(score, value=values[score.row]) for score in scores])
        run.reconfigure(config)


def values_of(run: Run) -> list[float | None]:
    return [score.value for score in run.scores()]


def test_scores_are_read_again_from_the_cache(tmp_path: Path, store: Store) -> None:
    judge = Judge('{"reason": "x", "score": 4}')
    given = {"data": ROWS, "metrics_list": ["gpt_fluency"], "judge": judge, "cache": str(tmp_path / "replies.sqlite")}
    run = evaluate(**given, store=store).run
    assert run.config["grammar"] == GRAMMAR and judge.asked == 4
    made_older(run, {2: 2.0, 3: 1.0})
    with pytest.warns(UserWarning, match=r"an older grammar .* made anew: 2 \(gpt_fluency: 2 in rows 2, 3\)$"):
        again = resume_run(store, run.id, data=ROWS, judge=judge)
    assert values_of(again.run) == [4.0] * 4 and judge.asked == 4
    config = store.run(run.id).config
    assert config["grammar"] == GRAMMAR and "gpt_fluency: 2 in rows 2, 3" in config["notes"][-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values_of(resume_run(store, run.id, data=ROWS, judge=judge).run) == [4.0] * 4
    made_older(run, {})
    resume_run(store, run.id, data=ROWS, judge=judge)  # all hold: nothing is said


class Dropping(Judge):
    """A judge whose server rejects the temperature and schemas."""

    @property
    def identity(self) -> dict[str, Any]:
        return {"name": "d", "parameters": {"temperature": 0.0, "seed": 1}, "response_format": "json_schema"}

    def dropped(self, schema: Any = None) -> tuple[str, ...]:
        return ("temperature",) if schema is None else ("json_schema", "temperature")

    async def __call__(self, messages: Any, schema: Any = None) -> Reply:
        return replace(await super().__call__(messages, schema), dropped=self.dropped(schema))


@pytest.mark.filterwarnings("ignore:the judge's server rejects")
def test_replies_to_requests_without_a_parameter_are_found(tmp_path: Path, store: Store) -> None:
    judge = Dropping('{"reason": "x", "score": 4}')
    given = {"data": ROWS, "metrics_list": ["gpt_fluency"], "judge": judge, "cache": str(tmp_path / "replies.sqlite")}
    run = evaluate(**given, store=store).run
    made_older(run, {2: 2.0})
    with pytest.warns(UserWarning, match=r"made anew: 1 \(gpt_fluency: 1 in rows 2\)$"):
        resume_run(store, run.id, data=ROWS, judge=judge)
    assert values_of(store.run(run.id)) == [4.0] * 4 and judge.asked == 4


def test_a_reply_that_gives_no_value_any_more_is_asked_anew(tmp_path: Path, store: Store) -> None:
    cache = str(tmp_path / "replies.sqlite")
    run = evaluate(data=ROWS, metrics_list=["gpt_fluency"], judge=Judge("Score: 4"), cache=cache, store=store).run
    [kept] = {score.details["reply"] for score in run.scores() if score.details is not None}
    assert kept == "Score: 4"
    with run.lease():
        scores = list(run.scores())
        withdraw_scores(run, scores, "cancelled", "")
        run.add_scores([replace(score, details={"reply": "A score of 4 would be too low"}) for score in scores[:1]])
        run.add_scores(scores[1:])
        run.reconfigure({name: value for name, value in run.config.items() if name != "grammar"})
    judge = Judge("Score: 3")
    with pytest.warns(UserWarning, match=r"made anew: 1 \(gpt_fluency: 1 in rows 1\)"):
        again = resume_run(store, run.id, data=ROWS, judge=judge, cache=str(tmp_path / "other.sqlite"))
    assert values_of(again.run) == [3.0, 4.0, 4.0, 4.0] and judge.asked == 1


def test_differences_are_told_once_though_the_run_is_killed(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge('{"reason": "x", "score": 4}')
    given = {"data": ROWS, "metrics_list": ["gpt_fluency"], "judge": judge, "cache": str(tmp_path / "replies.sqlite")}
    run = evaluate(**given, store=store).run
    made_older(run, {2: 2.0})

    def killed(*given: Any) -> None:
        withdraw_scores(*given)
        raise SystemExit

    with monkeypatch.context() as patch, pytest.warns(UserWarning, match=r"made anew: 1 \(gpt_fluency: 1 in rows 2\)"):
        patch.setattr("valor_gpu.evaluation.engine.reread.withdraw_scores", killed)
        with pytest.raises(SystemExit, match=r"^$"):
            resume_run(store, run.id, data=ROWS, judge=judge)
    resume_run(store, run.id, data=ROWS, judge=judge)
    notes = store.run(run.id).config["notes"]
    assert len(notes) == 1 and "gpt_fluency: 1 in rows 2" in notes[0]
    assert values_of(store.run(run.id)) == [4.0] * 4 and judge.asked == 4


def test_scores_without_their_replies_stay_and_are_counted(store: Store) -> None:
    judge = Judge('{"reason": "x", "score": 4}')
    run = evaluate(data=ROWS, metrics_list=["gpt_fluency", "gpt_coherence"], judge=judge, store=store).run
    made_older(run, {1: 2.0})
    message = r"whose replies were not kept: 4 \(gpt_coherence: 4\); evaluate anew"
    with pytest.warns(UserWarning, match=message):  # the other metric is not looked at
        rescore_run(store, run.id, ["gpt_coherence"], judge=judge)
    assert "grammar" not in store.run(run.id).config or store.run(run.id).config["grammar"] == 1
    with pytest.warns(UserWarning, match=r"whose replies were not kept: 8 \(gpt_\w+: 4, gpt_\w+: 4\)"):
        resume_run(store, run.id, data=ROWS, judge=judge)
    assert values_of(store.run(run.id)).count(2.0) == 2 and store.run(run.id).config["grammar"] == GRAMMAR


def test_several_questions_and_turns_are_read_again(tmp_path: Path, store: Store) -> None:
    rows = [
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": f"a{n}"}]} for n in range(2)
    ]
    judge = Judge('{"reason": "x", "score": 4}')
    given = {"metrics_list": ["gpt_fluency"], "judge": judge, "cache": str(tmp_path / "replies.sqlite")}
    run = evaluate(data=rows, task_type="chat", **given, store=store).run
    made_older(run, {2: 5.0})
    with pytest.warns(UserWarning, match="gpt_fluency: 1 in rows 2"):
        resume_run(store, run.id, data=rows, judge=judge)
    assert values_of(store.run(run.id)) == [4.0, 4.0] and judge.asked == 2
