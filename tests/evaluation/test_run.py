"""evaluate(): data, targets, metrics, and everything that is wrong with its arguments."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import valor_gpu
from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.evaluation.config import ARGUMENTS, RunConfig, load_config
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.evaluation.evaluators.base import evaluator
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.evaluation.judged import judged_metric
from valor_gpu.evaluation.run import EvaluationInterrupted, RowFailed, evaluate
from valor_gpu.judge import Progress, Question, Reply, Usage, question_metric
from valor_gpu.store import Store

ROWS = [
    {"id": "fr", "question": "Capital of France?", "answer": "Paris", "ground_truth": "Paris", "context": "Paris."},
    {"id": "it", "question": "Capital of Italy?", "answer": "Milan", "ground_truth": "Rome", "context": "Rome."},
    {"id": "es", "question": "Capital of Spain?", "answer": "It is Madrid", "ground_truth": "Madrid", "context": "-"},
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def rate(messages: Any) -> str:
    return '{"reason": "as asked", "score": 4}'


def capital(question: str) -> str:
    return {"France": "Paris", "Italy": "Rome", "Spain": "Madrid"}[question.split()[-1].rstrip("?")]


def values(result: Any, name: str) -> list[float | None]:
    return [score.value for score in result.run.scores(name)]


def test_public_names_and_arguments_are_the_same_everywhere() -> None:
    assert valor_gpu.evaluate is evaluate
    names = tuple(inspect.signature(evaluate).parameters)
    assert names == ARGUMENTS
    assert set(Settings.__dataclass_fields__) - set(names) == {"parameters", "group"}


def test_computed_metrics_of_data(store: Store) -> None:
    result = evaluate(data=ROWS, metrics_list=["exact_match", "f1_score"], store=store, tags={"team": "geo"})
    assert result.metrics_summary == {"mean_exact_match": 1 / 3, "mean_f1_score": pytest.approx((1 + 0 + 0.5) / 3)}
    run = store.run(result.run_id)
    assert run.state == "finished" and run.tags == {"team": "geo"} and run.dataset == run.config["data"]["hash"]
    assert [row.key for row in run.rows()] == ["fr", "it", "es"]
    assert run.rows()[0].inputs == ROWS[0] and run.rows()[0].outputs == {}
    config = RunConfig.from_dict(run.config)
    assert config.data["rows"] == 3 and config.task_type == "qa" and config.judge is None
    assert [each["version"] for each in config.evaluators] == [
        evaluator("exact_match").version, evaluator("f1_score").version,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["function", "coroutine", "object", "named"])
def test_targets_answer_before_metrics(store: Store, kind: str, tmp_path: Path) -> None:
    async def later(question: str) -> str:
        await asyncio.sleep(0)
        return capital(question)

    class Capital:
        def __call__(self, question: str) -> dict[str, str]:
            return {"response": capital(question), "note": "-"}

    (tmp_path / "geo.py").write_text("def answer(question):\n    return 'Paris' if 'France' in question else 'Rome'\n")
    target = {"function": capital, "coroutine": later, "object": Capital(), "named": f"{tmp_path / 'geo.py'}:answer"}
    result = evaluate(data=ROWS, target=target[kind], metrics_list=["exact_match", "latency"], store=store)
    assert values(result, "exact_match") == [1, 1, 0 if kind == "named" else 1]
    assert all(value is not None and value > 0 for value in values(result, "latency"))
    [first, *_] = result.run.rows()
    assert {"_seconds", "_cost", "_usage"} < set(first.outputs)


def test_targets_run_side_by_side(store: Store) -> None:
    together = threading.Barrier(4, timeout=120)

    def target(question: str) -> str:
        together.wait()
        return capital(question)

    rows = [{**ROWS[number % 3], "id": str(number)} for number in range(8)]
    result = evaluate(data=rows, target=target, metrics_list=["exact_match"], max_concurrency=4, store=store)
    assert result.metrics_summary == {"mean_exact_match": 1.0}


def test_a_row_that_fails_leaves_the_others(store: Store) -> None:
    def target(question: str) -> str:
        if "Italy" in question:
            raise ValueError("no boot today")
        return capital(question)

    result = evaluate(data=ROWS, target=target, metrics_list=["exact_match"], store=store)
    assert result.run.counts() == {"ok": 2, "target_error": 1}
    assert result.run.rows()[1].error == "ValueError: no boot today"
    assert result.metrics_summary == {"mean_exact_match": 1.0}


def test_bad_rows_of_files_are_listed_and_left_out(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        b'{"answer": "a", "ground_truth": "a"}\n{"answer": \xff}\n\n{"answer": "b", "ground_truth": "c"}\n'
    )
    result = evaluate(data=file, metrics_list=["exact_match"], store=store)
    assert result.run.counts() == {"ok": 2, "invalid_row": 1} and values(result, "exact_match") == [1, 0]
    assert "line 2" in result.run.rows()[1].error
    assert result.run.config["data"]["source"] == str(file)


def test_judged_and_computed_metrics_together(store: Store) -> None:
    result = evaluate(data=ROWS, metrics_list=["gpt_coherence", "f1_score"], judge=rate, repeats=2, store=store)
    scores = list(result.run.scores("gpt_coherence"))
    assert [(score.row, score.repeat) for score in scores] == [(row, k) for row in (1, 2, 3) for k in (0, 1)]
    assert {(score.value, score.reason) for score in scores} == {(4.0, "as asked")}
    assert result.metrics_summary["mean_gpt_coherence"] == 4.0 and len(values(result, "f1_score")) == 3
    assert result.run.config["judge"] == {"kind": "callable", "name": "rate"}


def test_defaults_of_a_task_are_those_whose_columns_are_there(store: Store) -> None:
    rows = [{"question": "?", "answer": "!"}]
    with pytest.warns(UserWarning, match=r"left out.*gpt_groundedness \(needs context\), gpt_relevance"):
        result = evaluate(data=rows, judge=rate, store=store)
    assert [each["name"] for each in result.run.config["evaluators"]] == ["gpt_coherence"]
    assert "gpt_groundedness" in result.run.config["notes"][0]
    whole = evaluate(data=ROWS, judge=rate, store=store)
    assert list(whole.metrics_summary) == ["mean_gpt_groundedness", "mean_gpt_relevance", "mean_gpt_coherence"]
    with pytest.raises(InputError, match="no default metric of task_type 'qa'"):
        evaluate(data=[{"x": 1}], judge=rate, store=store)


def test_chat_is_known_by_its_columns_and_mapping(store: Store) -> None:
    citations = {"citations": [{"id": "1", "content": "9:00"}]}
    messages = [
        {"role": "user", "content": "Is there a ferry?"},
        {"role": "assistant", "content": "At nine.", "context": citations},
    ]
    defaults = ["mean_gpt_groundedness", "mean_gpt_relevance", "mean_gpt_retrieval_score"]
    for rows, mapping in (([{"messages": messages}], None), ([{"talk": messages}], {"messages": "talk"})):
        result = evaluate(data=rows, judge=rate, data_mapping=mapping, store=store)
        assert result.run.config["task_type"] == "chat" and list(result.metrics_summary) == defaults
    mapped = evaluate(data=[{"messages": messages}], judge=rate, data_mapping={"y_pred": "messages"}, store=store)
    assert mapped.run.config["task_type"] == "chat"
    with pytest.raises(InputError, match="'f1_score' scores no rows of task_type 'chat'"):
        evaluate(data=[{"messages": messages}], metrics_list=["f1_score"], task_type="chat", store=store)


def test_evaluators_of_the_users_own(store: Store) -> None:
    def brevity(answer: str, difficulty: int = 1) -> float:
        return difficulty / len(answer)

    def ask(row: Any) -> Question:
        return Question([{"role": "user", "content": f"Good? {row['answer']}"}], int)

    rows = [{**row, "difficulty": 2} for row in ROWS]
    mine = question_metric("mine", ask, 1, 5)
    result = evaluate(
        data=rows,
        evaluators={"short": brevity, "mine": mine},
        metrics_list=["f1_score"],
        judge=lambda m: "3",
        store=store,
    )
    assert values(result, "short") == [2 / 5, 2 / 5, 2 / 12] and values(result, "mine") == [3, 3, 3]
    described = {each["name"]: each for each in result.run.config["evaluators"]}
    assert [described[name]["source"] for name in ("f1_score", "short", "mine")] == ["builtin", "custom", "custom"]
    assert described["short"]["origin"] is None and described["mine"]["needs_judge"]


def test_warnings_name_the_line_of_the_user(store: Store) -> None:
    mapping = {"y_test": "groundtruth"}
    with pytest.warns(UserWarning, match="is read from 'ground_truth'") as told:
        evaluate(data=ROWS, metrics_list=["exact_match"], data_mapping=mapping, store=store)
    costs = {"prices": {"prompt": 1e6, "completion": 1e6}, "max_cost": 1e-6, "max_concurrency": 1}

    def judge(messages: Any) -> Reply:
        return Reply(rate(messages), Usage(10, 5))

    with pytest.warns(UserWarning, match="stopped, and can be resumed") as stopped:
        evaluate(data=ROWS, metrics_list=["gpt_fluency"], judge=judge, store=store, **costs)  # type: ignore[arg-type]
    assert {each.filename for each in (*told, *stopped)} == {__file__}


def test_versions_of_a_deleted_evaluator_stay(store: Store) -> None:
    save_evaluator(store, "same", "exact_match", parameters={"ignore_case": True})
    run = evaluate(data=ROWS, metrics_list=["same"], store=store)
    store.evaluators.delete("same")
    with pytest.raises(InputError, match="'same' is deleted from the store: valor-gpu eval evaluators restore same"):
        evaluate(data=ROWS, metrics_list=["same"], store=store)
    assert evaluate(data=ROWS, metrics_list=["same@1"], store=store).metrics_summary == run.metrics_summary
    assert evaluate(resume=run, data=ROWS, store=store).run_id == run.run_id


def test_no_metrics_stores_answers_alone(store: Store) -> None:
    result = evaluate(data=ROWS, target=capital, metrics_list=[], store=store)
    assert result.metrics_summary == {} and [row.outputs["answer"] for row in result.run.rows()] == [
        "Paris", "Rome", "Madrid",
    ]  # fmt: skip


def test_epochs_and_limit(store: Store) -> None:
    result = evaluate(data=ROWS, target=capital, metrics_list=["exact_match"], epochs=3, limit=2, store=store)
    rows = result.run.rows()
    assert [(row.number, row.key) for row in rows] == [
        (1, "fr"), (2, "fr@2"), (3, "fr@3"), (4, "it"), (5, "it@2"), (6, "it@3"),
    ]  # fmt: skip
    assert result.summary["rows"]["n_questions"] == 2


def test_grid_of_parameters_is_a_group_of_runs(store: Store, tmp_path: Path) -> None:
    def target(question: str, style: str, loud: bool = False) -> str:
        found = capital(question)
        return (found if style == "short" else f"It is {found}") + ("!" if loud else "")

    grid = {"style": ["short", "long"], "loud": [False, True]}
    runs = evaluate(data=ROWS, target=target, metrics_list=["exact_match"], params_grid=grid, store=store)
    assert [result.run.config["parameters"] for result in runs] == [
        {"style": style, "loud": loud} for style in ("short", "long") for loud in (False, True)
    ]
    assert [result.metrics_summary["mean_exact_match"] for result in runs] == [1, 0, 0, 0]
    assert len({result.run.config["group"] for result in runs}) == 1 and runs[0].run.config["group"]
    kept = {"evaluation_name": "tone", "output_path": tmp_path / "out", "store": store}
    named = evaluate(data=ROWS, target=target, metrics_list=[], params_grid=grid, **kept)
    assert [result.name for result in named][1:3] == ["tone style=short loud=True", "tone style=long loud=False"]
    rows = [(tmp_path / "out" / str(n) / "eval_results.jsonl").read_text() for n in (1, 2, 3, 4)]
    assert len(set(rows)) == 4 and '"It is Paris!"' in rows[3]
    [alone] = evaluate(data=ROWS, target=target, metrics_list=[], params_grid=[{"style": "long"}], **kept)
    assert alone.name == "tone" and (tmp_path / "out" / "eval_results.jsonl").is_file()
    with pytest.raises(InputError, match="'tone'"):
        evaluate(data=ROWS, target=target, metrics_list=[], params_grid={"tone": ["a"]}, store=store)


def test_preference_compares_with_the_answers_of_a_baseline(store: Store) -> None:
    old = evaluate(data=ROWS, metrics_list=["f1_score"], store=store, evaluation_name="old")
    seen: list[str] = []

    def judge(messages: Any) -> str:
        seen.append(messages[-1]["content"])
        return '{"reason": "-", "verdict": "tie", "status": "completed"}'

    for baseline in (old, old.run, old.run_id, "old"):
        result = evaluate(
            data=ROWS[:2], target=capital, metrics_list=["preference"], judge=judge, baseline=baseline, store=store
        )
        assert values(result, "preference") == [0.5, 0.5] and result.run.config["baseline"] == old.run_id
    assert any("Milan" in text and "Rome" in text for text in seen)
    epochs = evaluate(
        data=ROWS, target=capital, metrics_list=["preference"], judge=judge, baseline="old", epochs=2, store=store
    )
    assert values(epochs, "preference") == [0.5] * 6
    with pytest.raises(InputError, match="no run with the id or name 'older'"):
        evaluate(data=ROWS, metrics_list=["f1_score"], baseline="older", store=store)


def test_max_cost_stops_a_run_that_can_go_on(store: Store) -> None:
    def judge(messages: Any) -> Reply:
        return Reply('{"reason": "-", "score": 4}', Usage(1000, 0))

    rows = [{"question": str(number), "answer": "a"} for number in range(60)]
    prices = {"prompt": 1000, "completion": 1}  # one a request
    with pytest.warns(UserWarning, match=r"stopped, and can be resumed: max_cost"):
        result = evaluate(
            data=rows,
            metrics_list=["gpt_coherence"],
            judge=judge,
            prices=prices,
            max_cost=10,
            max_concurrency=2,
            store=store,
        )
    assert result.run.state == "stopped" and "max_cost" in result.summary["stopped"]
    assert 10 <= len(values(result, "gpt_coherence")) <= 12 and 10 <= result.cost <= 12
    result = evaluate(resume=result.run_id, judge=judge, data=rows, max_cost=1000, store=store)
    assert result.run.state == "finished" and result.summary["stopped"] is None and result.cost == 60


def test_a_judge_that_rejects_the_key_stops_the_run(store: Store) -> None:
    from valor_gpu.judge import JudgeError, Status

    asked: list[Any] = []

    def judge(messages: Any) -> str:
        asked.append(messages)
        raise JudgeError(Status.UNAUTHORIZED, "wrong key sk-abcdefghijklmnopqrstuvwxyz0123456789")

    rows = [{"question": str(number), "answer": "a"} for number in range(200)]
    with pytest.warns(UserWarning, match="stopped"):
        result = evaluate(data=rows, metrics_list=["gpt_coherence"], judge=judge, store=store, max_concurrency=2)
    assert len(asked) <= 4 and result.run.state == "stopped"
    assert all("sk-abc" not in score.reason for score in result.run.scores())
    again = evaluate(resume=result.run_id, data=rows, judge=judge_named("judge"), store=store)
    assert again.run.state == "finished" and again.metrics_summary == {"mean_gpt_coherence": 4.0}


def judge_named(name: str) -> Any:
    """Another function of that name within a test, so that it counts as the same judge."""

    def judge(messages: Any) -> str:
        return rate(messages)

    judge.__qualname__ = f"test_a_judge_that_rejects_the_key_stops_the_run.<locals>.{name}"
    return judge


def test_on_error_raise(store: Store) -> None:
    def target(question: str) -> str:
        raise ValueError("down")

    with pytest.raises(RowFailed, match=r"row 1 \(fr\): target_error: ValueError: down") as caught:
        evaluate(data=ROWS, target=target, metrics_list=[], on_error="raise", max_concurrency=1, store=store)
    assert caught.value.result.run.state == "failed" and caught.value.number == 1
    with pytest.raises(RowFailed, match=r"gpt_coherence: parse_error"):
        evaluate(data=ROWS, judge=lambda m: "dunno", metrics_list=["gpt_coherence"], on_error="raise", store=store)


def test_a_target_without_the_mapped_output_ends_the_run(store: Store) -> None:
    with pytest.raises(InputError, match=r"'answer' is \${target\.reply}, which it does not return"):
        evaluate(
            data=ROWS, target=lambda question: {"text": "a"}, data_mapping={"y_pred": "${target.reply}"},
            metrics_list=["exact_match"], store=store,
        )  # fmt: skip
    assert store.runs()[0].state == "failed"


def test_ctrl_c_of_a_target_stops_the_run(store: Store) -> None:
    def target(question: str) -> str:
        import _thread

        if "Italy" in question:
            _thread.interrupt_main()
        return capital(question)

    with pytest.raises(EvaluationInterrupted) as caught:
        evaluate(
            data=ROWS * 50, target=target, metrics_list=["exact_match"], judge=rate, max_concurrency=1, store=store
        )
    run = caught.value.result.run
    assert run.state == "stopped" and run.finished_summary is not None
    assert run.finished_summary["stopped"] == "interrupted by Ctrl-C"
    assert 0 < run.counts()["ok"] < 150


def test_progress_counts_rows(store: Store) -> None:
    seen: list[Progress] = []
    evaluate(data=ROWS, target=capital, metrics_list=["gpt_coherence"], judge=rate, progress=seen.append, store=store)
    assert [each.done for each in seen] == [1, 2, 3] and seen[-1].total == 3 and seen[-1].failed == 0


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"data": None}, InputError, "data must be a path"),
    ({"data": "missing.jsonl"}, InputError, "no 'missing.jsonl'"),
    ({"data": "azureml://x/y"}, InputError, "begins with azureml://"),
    ({"task_type": "summary"}, InputError, "task_type must be one of None, 'qa', 'chat'"),
    ({"metrics_list": "f1_score"}, InputTypeError, "metrics_list must be a list"),
    ({"metrics_list": ["f1_scor"]}, InputError, "'f1_scor' is none; did you mean 'f1_score'"),
    ({"metrics_list": ["f1_score", "f1_score"]}, InputError, "named once but is named 2 times"),
    ({"metrics_list": ["f1_scor", "bleuu"]}, InputError, "(?s)f1_scor.*bleuu"),
    ({"metrics_list": [3]}, InputTypeError, "must be a name, a function"),
    ({"metrics_list": ["ada_similarity"]}, InputError, "give embedding_config"),
    ({"metrics_list": ["meteor"]}, InputError, "WordNet"),
    ({"metrics_list": ["gpt_coherence"]}, InputError, "model_config or judge must be given"),
    ({"metrics_list": ["nowhere:metric"]}, InputError, "nowhere"),
    ({"metric_params": {"exact_mtch": {}}}, InputError, "did you mean 'exact_match'"),
    ({"metric_params": {"exact_match": {"ignore": True}}}, InputError, "must get parameters of"),
    ({"metrics_list": [evaluator("bleu")], "metric_params": {"bleu": {}}}, InputError, "made with its parameters"),
    ({"data_mapping": {"y_test": "grund_truth"}}, InputError, "did you mean 'ground_truth'"),
    ({"data": [{"answer": "a"}]}, InputError, "'ground_truth' is needed by exact_match"),
    ({"thresholds": {"f1_score": 0.5}}, InputError, "f1_score"),
    ({"thresholds": {"exact_match": 3}}, InputError, r"in \[0.0, 1.0\] but got 3"),
    ({"thresholds": {"exact_match": "High"}}, InputError, "levels are for severities"),
    ({"slice_by": ["questio"]}, InputError, "did you mean 'question'"),
    ({"key": "ids"}, InputError, "key must be a column but is 'ids'; did you mean 'id'"),
    ({"epochs": 2}, InputError, "needs a target"),
    ({"epochs": 0}, InputError, "epochs must be at least 1"),
    ({"repeats": 1.5}, InputTypeError, "repeats must be int"),
    ({"limit": 0}, InputError, "limit must be at least 1"),
    ({"max_concurrency": 0}, InputError, "max_concurrency must be at least 1"),
    ({"rpm": 0}, InputError, "rpm must be in"),
    ({"timeout": 0}, InputError, "timeout must be greater than 0"),
    ({"on_error": "ignore"}, InputError, "on_error must be one of 'record', 'raise'"),
    ({"params_grid": {"a": [1]}}, InputError, "needs a target"),
    ({"target": capital, "params_grid": {"a": 1}}, InputError, "must be a list with values"),
    ({"target": capital, "params_grid": {}}, InputError, "at least one parameter"),
    ({"target": lambda quest: "a"}, InputError, "'quest'.*did you mean 'question'"),
    ({"target": 3}, InputTypeError, "target must be"),
    ({"judge": rate, "model_config": {"model": "m"}}, InputError, "both give the judge"),
    ({"model_config": {"model": "m", "api_key": None}}, InputError, "is None"),
    ({"judge": rate, "metrics_list": ["gpt_coherence"], "max_cost": 1}, InputError, "must come with prices"),
    ({"prices": {"promt": 1}}, InputError, "prices must have"),
    ({"progress": "yes"}, InputTypeError, "progress must be bool or a function"),
    ({"output_path": __file__}, InputError, "output_path must be a folder"),
    ({"baseline": 3}, InputTypeError, "baseline must be a run"),
    ({"resume": 3}, InputTypeError, "resume must be the id"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_wrong_arguments_are_found_before_anything_runs(
    store: Store, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"data": ROWS, "metrics_list": ["exact_match"], "store": store, **wrong}
    with pytest.raises(error, match=message):
        evaluate(**given)
    assert list(store.runs()) == []


@pytest.mark.parametrize("name", ["model_config", "embedding_config"])
def test_a_package_that_is_missing_is_found_before_anything_runs(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    metric = {"model_config": "gpt_coherence", "embedding_config": "ada_similarity"}[name]
    config = {name: {"model": "m", "base_url": "http://127.0.0.1:1/v1"}}
    with pytest.raises(MissingExtraError, match=r"needs openai: pip install 'valor_gpu\[llm\]'"):
        evaluate(data=ROWS, metrics_list=[metric], store=store, **config)  # type: ignore[arg-type]
    assert list(store.runs()) == []


def test_a_run_without_a_target_does_not_say_that_rows_have_answers(store: Store) -> None:
    rows = [*ROWS, {"id": "pe", "question": "Capital of Peru?"}]
    assert str(evaluate(data=rows, metrics_list=["exact_match"], store=store)).splitlines()[1] == "4 rows"
    answered = evaluate(data=ROWS, target=capital, metrics_list=["exact_match"], store=store)
    assert str(answered).splitlines()[1] == "3 rows, 3 with an answer"


def test_configuration_files_hold_arguments(tmp_path: Path, store: Store) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"data": str(data), "metrics_list": ["exact_match"], "limit": 2}))
    assert evaluate(**load_config(file), store=store).summary["rows"]["n"] == 2
    file.write_text('{"metric_list": []}')
    with pytest.raises(InputError, match="did you mean 'metrics_list'"):
        load_config(file)
    file.write_text("[1]")
    with pytest.raises(InputError, match="must hold a mapping"):
        load_config(file)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.json", '{"data": "a.csv", "thresholds": {"f1_score": 1, "f1_score": 0.5}}'),
        ("a.yaml", "data: a.csv\nthresholds:\n  f1_score: 1\n  f1_score: 0.5\n"),
        ("b.yaml", "data: a.csv\nparams_grid:\n- &x {style: a, f1_score: 1, f1_score: 2}\n- *x\n"),
    ],
)
def test_a_key_twice_in_a_configuration_is_an_error(file: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="pyyaml is not installed")
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match="has the key 'f1_score' more than once"):
        load_config(tmp_path / file)


def test_judged_metrics_as_objects_are_the_builtin_ones(store: Store) -> None:
    result = evaluate(data=ROWS, metrics_list=[judged_metric("gpt_fluency")], judge=rate, store=store)
    [described] = result.run.config["evaluators"]
    assert (described["source"], described["kind"]) == ("builtin", "quality")


def test_files_of_a_run_are_written_and_replaced(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "deep"
    for target in (capital, lambda question: "Oslo"):
        result = evaluate(data=ROWS, target=target, metrics_list=["exact_match"], output_path=folder, store=store)
        rows = [json.loads(line) for line in (folder / "eval_results.jsonl").read_text().splitlines()]
        metrics = json.loads((folder / "metrics.json").read_text())
        assert [row["exact_match"] for row in rows] == values(result, "exact_match")
        assert metrics["run_id"] == result.run_id and metrics["metrics"] == result.metrics_summary
    assert {file.name for file in folder.iterdir()} == {"eval_results.jsonl", "metrics.json", "run.json", "report.html"}
    assert len(store.runs()) == 2


def test_files_that_cannot_be_written_cost_a_warning(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("valor_gpu.evaluation.engine.execute.write_artifacts", full)
    with pytest.warns(UserWarning, match="is in the store, but its files could not be written.*No space"):
        result = evaluate(data=ROWS, metrics_list=["exact_match"], output_path=tmp_path / "out", store=store)
    assert result.run.state == "finished"


def test_the_configuration_that_a_run_wrote_makes_it_again(tmp_path: Path, store: Store) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "own.py").write_text(
        "def answer(question, style='short'):\n    return 'Rome' if style == 'short' else 'It is Rome'\n"
        "def brevity(answer):\n    return 1 / len(answer)\n"
    )
    [first] = evaluate(
        data=data, target=f"{tmp_path / 'own.py'}:answer", metrics_list=["exact_match"], limit=2,
        evaluators={"short": f"{tmp_path / 'own.py'}:brevity"}, metric_params={"exact_match": {"ignore_case": True}},
        params_grid=[{"style": "long"}], output_path=tmp_path / "out", slice_by="context", store=store,
    )  # fmt: skip
    [again] = evaluate(**load_config(tmp_path / "out" / "run.json"), store=store)
    assert again.run_id != first.run_id and again.metrics_summary == first.metrics_summary
    differing = {name for name in first.run.config if first.run.config[name] != again.run.config[name]}
    assert differing <= {"group", "evaluation_name"}
    own = evaluate(data=data, evaluators=[lambda_free], store=store, output_path=tmp_path / "own")
    assert own.run.config["evaluators"][0]["origin"] is not None
    evaluate(data=data, evaluators={"local": lambda answer: 1.0}, store=store, output_path=tmp_path / "local")
    with pytest.raises(InputError, match="'local' must be named module:function"):
        load_config(tmp_path / "local" / "run.json")


def lambda_free(answer: str) -> float:
    return 1.0
