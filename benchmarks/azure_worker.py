"""One measurement of azure-ai-evaluation, in its own environment: ``python azure_worker.py TASK.json``.

Imports nothing of this project. The process cannot reach any network: every attempt fails and is reported.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

REFUSED: list[str] = []


def cut_network() -> None:
    """No address is looked up or connected to from here on."""
    connect = socket.socket.connect

    def refuse(where: object) -> None:
        REFUSED.append(str(where))
        raise OSError("the benchmark runs without a network")

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            refuse(address)
        connect(self, address)

    socket.socket.connect = local_only  # type: ignore[method-assign, assignment]
    socket.getaddrinfo = lambda host, *rest, **more: refuse(host)  # type: ignore[assignment]


def peak_megabytes() -> float | None:
    """Of this process alone; ``getrusage`` would begin with the memory of the process that forked it."""
    try:
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return None


def main(path: str) -> int:
    """Run the task of a file, and print what came of it as JSON."""
    task = json.loads(Path(path).read_text())
    os.environ |= {"APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true", "PF_DISABLE_TRACING": "true"}
    cut_network()
    from azure.ai import evaluation

    made = {
        "f1_score": lambda: evaluation.F1ScoreEvaluator(),
        "rougeL": lambda: evaluation.RougeScoreEvaluator(rouge_type=evaluation.RougeType.ROUGE_L),
    }
    evaluators = {name: made[name]() for name in task["metrics"]}
    measure = _evaluate if task["work"] == "evaluate" else _call
    with contextlib.redirect_stdout(io.StringIO()):
        found = measure(evaluation, evaluators, task)
    peak = peak_megabytes()
    print(json.dumps({**found, "peak_mb": peak, "refused": REFUSED, "version": evaluation._version.VERSION}))
    return 0


def _call(evaluation: Any, evaluators: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """Each evaluator on each row."""
    rows = [json.loads(line) for line in Path(task["data"]).read_text().splitlines()]
    pairs = [{"response": row["response"], "ground_truth": row["ground_truth"]} for row in rows]
    start, cpu = time.perf_counter(), time.process_time()
    found = {name: [each(**pair) for pair in pairs] for name, each in evaluators.items()}
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    values = {name: [_number(row, "", name) for row in scored] for name, scored in found.items()}
    return {"seconds": seconds, "cpu_seconds": cpu, "values": values}


def _evaluate(evaluation: Any, evaluators: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """The whole run, which writes its result into a file."""
    start, cpu = time.perf_counter(), time.process_time()
    result = evaluation.evaluate(data=task["data"], evaluators=evaluators, output_path=task["output"])
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    values = {name: [_number(row, f"outputs.{name}.", name) for row in result["rows"]] for name in evaluators}
    return {"seconds": seconds, "cpu_seconds": cpu, "values": values}


def _number(row: dict[str, Any], prefix: str, name: str) -> float:
    """The unrounded number of a row; that of ROUGE is among the properties."""
    return float(row[f"{prefix}f1_score"] if name == "f1_score" else row[f"{prefix}rouge_properties"]["rouge_f1_score"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
