"""evaluate() on real answers: two models solve word problems of GSM8K, and the larger one is compared with the smaller.

The answers are those that OpenAI published with the problems (examples/data/NOTICE.md); nothing is asked of a model
here, and nothing leaves this machine. Overlap metrics are computed; the place of the judge takes a RULE, which is no
language model: it compares the final numbers. Put ``model_config=`` in its place to ask a real one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from valor_gpu import EvaluationResult, evaluate
from valor_gpu.evaluation.results.exports import export_csv
from valor_gpu.judge import CallableJudge

DATA = Path(__file__).parent / "data" / "gsm8k_solutions.jsonl"
_NUMBER = r"\d+(?:\.\d+)?"
_EQUATION = re.compile(
    r"(?<![\d.])(?<![-+*/x])(?<![-+*/x] )(?<![-+*/x] \$)"  # not the end of a longer sum
    rf"({_NUMBER}) ?([-+*/x]) ?\$?({_NUMBER}) ?= ?\$?({_NUMBER})(?![\d%])"
)


def right_equations(answer: str) -> float:
    """Fraction of the equations of two numbers in an answer that hold, to a hundredth; 1 where there is none."""
    operations = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "x": lambda a, b: a * b,
        "/": lambda a, b: a / b if b else float("nan"),
    }
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", answer)
    found = [
        abs(operations[sign](float(a), float(b)) - float(result)) < 0.01
        for a, sign, b, result in _EQUATION.findall(plain)
    ]
    return sum(found) / len(found) if found else 1.0


def final_number(solution: str) -> str:
    """What stands behind the last ``A:``."""
    return solution.rsplit("A:", 1)[-1].strip()


def rule(messages: Sequence[dict[str, Any]]) -> str:
    """Rates similarity by rule, in the words of a judge: 5 for the same final number, 2 if it is there, else 1."""
    fenced = re.findall(r"^(~{3,}) [^\n]*\n(.*?)\n\1$", messages[-1]["content"], re.DOTALL | re.MULTILINE)
    expected, answer = (final_number(text) for _, text in fenced[-2:])
    if answer == expected:
        score, reason = 5, f"Both end in {expected}."
    elif re.search(rf"(?<![\d.]){re.escape(expected)}(?![\d.])", fenced[-1][1]):
        score, reason = 2, f"The answer comes by {expected} but ends in {answer}."
    else:
        score, reason = 1, f"The answer ends in {answer}, the solution in {expected}."
    return json.dumps({"reason": reason, "score": score, "status": "completed"})


def run(model: str, store: Path, baseline: EvaluationResult | None = None) -> EvaluationResult:
    """Evaluates the answers of one model.

    Args:
        model: end of the name of its columns.
        store: file of the runs.
        baseline: run to compare with.
    """
    result: EvaluationResult = evaluate(
        evaluation_name=f"word problems, {model} parameters",
        data=DATA,
        data_mapping={"answer": f"${{data.answer_{model}}}"},
        metrics_list=["gpt_similarity", "f1_score", "rougeL", "bleu", right_equations],
        judge=CallableJudge(rule, name="RULE of the final number, no language model"),
        thresholds={"gpt_similarity": 5},
        slice_by="steps",
        store=store,
        baseline=baseline,
        tags={"model": model},
    )
    return result


def main(folder: Path) -> None:
    """Evaluates both models, prints the numbers and the comparison, writes files and the store into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "store.sqlite"
    small = run("6b", store)
    large = run("175b", store, baseline=small)
    print(large)
    print()
    print(large.compare(small))
    large.download_evaluation_artifacts(folder)  # rows, numbers, configuration, report.html
    export_csv(large.run, folder / "rows.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo_out/evaluation"))
