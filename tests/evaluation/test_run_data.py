"""What a run must not do to its data, and evaluators of the user's own that look like others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import Evaluator, EvaluatorInfo, Outcome, Portion
from valor_gpu.evaluation.run import evaluate, resume_run
from valor_gpu.store import Store

ROWS = [{"id": 1, "answer": "a b", "ground_truth": "a b"}, {"id": 2, "answer": "a", "ground_truth": "b"}]
ROW = '{"id": 1, "answer": "Paris", "ground_truth": "Paris"}\n'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


class Own(Evaluator):
    """An evaluator of the user's own by the name of one of the table."""

    def __init__(self, pooled: bool = False) -> None:
        super().__init__(EvaluatorInfo("f1_score", "text", "", frozenset({"answer"}), 0.0, 1.0, "own"), {})
        self.pooled = pooled

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """A quarter."""
        return [Outcome(0.25) for _ in complete]


@pytest.mark.parametrize("output", ["data.jsonl", "out", "link"])
def test_files_of_a_run_do_not_replace_its_data(store: Store, tmp_path: Path, output: str) -> None:
    file = tmp_path / ("data.jsonl" if output == "data.jsonl" else "out/eval_results.jsonl")
    file.parent.mkdir(exist_ok=True)
    file.write_text(ROW)
    (tmp_path / "link").symlink_to(file.parent)
    with pytest.raises(InputError, match=r"output_path must be another than that of the data, since .*l would replace"):
        evaluate(data=file, metrics_list=["f1_score"], store=store, output_path=tmp_path / output)
    assert file.read_text() == ROW
    assert store.runs() == []


def test_an_evaluator_with_the_name_of_another_is_another_version(store: Store) -> None:
    mine, ours = (evaluate(data=ROWS, metrics_list=[each], store=store) for each in (Own(), "f1_score"))
    configs: list[dict[str, Any]] = [each.run.config["evaluators"][0] for each in (mine, ours)]
    assert [each["source"] for each in configs] == ["custom", "builtin"]
    assert configs[0]["version"] != configs[1]["version"]
    with pytest.raises(InputError, match="have changed: 'f1_score'"):
        resume_run(store, ours.run_id, data=ROWS, evaluators=[Own()])
    assert resume_run(store, mine.run_id, data=ROWS, evaluators=[Own()]).metrics_summary == {"mean_f1_score": 0.25}


def test_pooled_evaluators_of_the_users_own_are_rejected_before_the_first_row(store: Store) -> None:
    with pytest.raises(InputError, match="evaluator 'f1_score' must not be pooled: summaries and comparisons pool"):
        evaluate(data=ROWS, metrics_list=[Own(pooled=True)], store=store)


@pytest.mark.parametrize("first", [{"answer": None}, {"reply": None}])
def test_a_first_answer_of_none_costs_its_own_row_alone(store: Store, first: dict[str, Any]) -> None:
    def target(id: int) -> dict[str, Any]:
        return first if id == 1 else dict.fromkeys(first, "a b")

    result = evaluate(data=ROWS, target=target, metrics_list=["length"], store=store, max_concurrency=1)
    assert result.metrics_summary == {"mean_length": 3}
    assert result.summary["evaluators"]["length"]["n_failed"] == {"missing_field": 1}


def test_a_grid_that_explodes_is_an_error_at_once(store: Store) -> None:
    grid = {name: list(range(10)) for name in "abcdefghijklmno"}
    with pytest.raises(InputError, match="params_grid must make at most 10000 runs but would make 1000000000000000"):
        evaluate(data=ROWS, target=lambda id: "x", metrics_list=["length"], store=store, params_grid=grid)


def test_a_store_that_was_removed_meanwhile_is_a_warning(tmp_path: Path) -> None:
    def remove(answer: str) -> float:
        for file in tmp_path.iterdir():
            file.unlink()
        return 1.0

    with Store(tmp_path / "store.sqlite") as store:
        with pytest.warns(UserWarning, match=r"store .*store.sqlite was removed while run .* went on"):
            result = evaluate(data=ROWS, metrics_list=[remove], store=store)
        assert result.metrics_summary == {"mean_remove": 1.0}


@pytest.mark.parametrize("name", ["store", "cache"])
def test_files_of_a_run_do_not_replace_its_store_or_cache(tmp_path: Path, name: str) -> None:
    files = {"store": tmp_path / "store.sqlite", "cache": tmp_path / "replies.sqlite"}
    files[name] = tmp_path / "run.json"
    run: dict[str, Any] = {"data": [{"question": "?", "answer": "!"}], "metrics_list": ["gpt_fluency"], **files}
    evaluate(**run, judge=lambda messages: '{"score": 4}')
    with pytest.raises(InputError, match=rf"output_path must be another than that of the {name}, since .*run.json"):
        evaluate(**run, judge=lambda messages: '{"score": 4}', output_path=tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "a" * 300])
def test_a_folder_that_cannot_have_its_name(store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="output_path must be the path of a folder but is none: "):
        evaluate(data=ROWS, metrics_list=["f1_score"], store=store, output_path=tmp_path / name)
    assert store.runs() == []
