"""Parameters of a target that are no fields are filled by the data mapping, also when the run is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.resume import resume_run
from valor_gpu.evaluation.run import evaluate
from valor_gpu.store import Store

FAILS: list[str] = []


def answer(question: str, style: str) -> str:
    """Answers in a style, or fails."""
    if style in FAILS:
        raise ValueError("not now")
    return f"{style} {question}"


ROWS = "question,kind,ground_truth\nWho?,short,short Who?\nWhat?,long,x\n"


def test_a_parameter_is_mapped_and_the_run_resumed(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text(ROWS)
    with Store(tmp_path / "s.sqlite") as store:
        FAILS.append("long")
        found = evaluate(data=data, target=answer, metrics_list=["exact_match"], store=store,
                         data_mapping={"style": "${data.kind}"})  # fmt: skip
        FAILS.clear()
        run = store.run(str(found.run_id))
        assert run.config["data_mapping"]["style"] == "${data.kind}"
        assert run.counts()["ok"] == 1
        run.finish("stopped", {})
        resume_run(store, run.id, target=answer)
        assert [row.outputs["answer"] for row in run.rows()] == ["short Who?", "long What?"]


def test_a_name_that_nobody_reads_is_still_an_error(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text(ROWS)
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(InputError, match="'stile' is no field"):
        evaluate(data=data, target=answer, metrics_list=["exact_match"], store=store,
                 data_mapping={"style": "${data.kind}", "stile": "${data.kind}"})  # fmt: skip
