"""One measurement of valor_gpu's evaluation of texts: ``python -m benchmarks.evaluation_worker TASK.json``."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.azure_worker import REFUSED, cut_network, peak_megabytes

_PORTION = 1000
_LATE = ("engine.execute", "result", "results.summary", "artifacts", "evaluators.overlap", "report.page")
"""Modules that are imported when a run first needs them."""


def main(path: str) -> int:
    """Run the task of a file, and print what came of it as JSON."""
    task = json.loads(Path(path).read_text())
    if task["work"] != "requests":
        cut_network()
    found = {"evaluate": _evaluate, "requests": _ask, "evaluators": _call}[task["work"]](task)
    peak = peak_megabytes()
    print(json.dumps({**found, "peak_mb": peak, "refused": REFUSED}))
    return 0


def _call(task: dict[str, Any]) -> dict[str, Any]:
    """The evaluators on portions of rows, as a run gives them."""
    from valor_gpu.evaluation.evaluators.base import evaluator, score_portion

    rows = [json.loads(line) for line in Path(task["data"]).read_text().splitlines()]
    pairs = [{"answer": row["response"], "ground_truth": row["ground_truth"]} for row in rows]
    evaluators = [evaluator(name) for name in task["metrics"]]
    score_portion(evaluators, pairs[:1])  # loads the native library, as an import does
    start, cpu = time.perf_counter(), time.process_time()
    found = [score_portion(evaluators, pairs[i : i + _PORTION]) for i in range(0, len(pairs), _PORTION)]
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    values = {name: [one.value for portion in found for one in portion[name]] for name in task["metrics"]}
    return {"seconds": seconds, "cpu_seconds": cpu, "values": values}


def _ask(task: dict[str, Any]) -> dict[str, Any]:
    """A run whose judge is a server of its own on loopback."""
    import openai  # noqa: F401  # not counted

    from valor_gpu import evaluate

    command = [sys.executable, "-m", "benchmarks.loopback", str(task["delay"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            judge = {"base_url": f"http://127.0.0.1:{int(server.stdout.readline())}/v1", "model": "stub"}
            rows = [{"question": f"number {i}", "answer": "an answer"} for i in range(task["rows"])]
            start, cpu = time.perf_counter(), time.process_time()
            result = evaluate(
                data=rows, metrics_list=["gpt_fluency"], model_config=judge, max_concurrency=task["at_once"],
                store=Path(task["output"]).with_suffix(".sqlite"),
            )  # fmt: skip
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            values = {"gpt_fluency": [row["gpt_fluency"] for row in result.rows]}
        finally:
            server.kill()
    return {"seconds": seconds, "cpu_seconds": cpu, "values": values}


def _evaluate(task: dict[str, Any]) -> dict[str, Any]:
    """The whole run with its store and its files."""
    from valor_gpu import evaluate
    from valor_gpu.store import Store

    for name in ("jinja2", *(f"valor_gpu.evaluation.{name}" for name in _LATE)):
        importlib.import_module(name)
    output, store = Path(task["output"]), Path(task["output"]).with_suffix(".sqlite")
    start, cpu = time.perf_counter(), time.process_time()
    result = evaluate(data=task["data"], metrics_list=task["metrics"], output_path=output, store=store, task_type="qa")
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    with Store(store) as kept:
        run = kept.run(result.run_id)
        values = {name: [score.value for score in run.scores(name)] for name in task["metrics"]}
    return {"seconds": seconds, "cpu_seconds": cpu, "values": values}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
