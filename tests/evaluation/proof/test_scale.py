"""Runs of many rows: memory that does not grow with them, and requests that keep the judge busy."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.evaluation.proof.scripted import ScriptedJudge
from tests.judge.server import Request
from valor_gpu import evaluate

ROWS_PROGRAM = """
import json, sys
from valor_gpu import evaluate
rows, folder = int(sys.argv[1]), sys.argv[2]
with open(folder + "/rows.jsonl", "w") as file:
    for i in range(rows):
        words = " ".join(f"w{(i * k) % 997}" for k in range(1, 31))
        file.write(json.dumps({"question": f"number {i}", "answer": words, "ground_truth": words[5:]}) + chr(10))
result = evaluate(data=folder + "/rows.jsonl", metrics_list=["f1_score"], store=folder + "/store.sqlite")
assert result.summary["rows"]["n"] == rows, result.summary["rows"]
status = open("/proc/self/status").read()  # getrusage would tell the memory of the process that forked this one
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""

JUDGED_PROGRAM = """
import json, sys, warnings
from valor_gpu import evaluate
from valor_gpu.judge import JudgeError, Status
rows, folder = int(sys.argv[1]), sys.argv[2]
warnings.simplefilter("ignore")
with open(folder + "/rows.jsonl", "w") as file:
    for i in range(rows):
        file.write(json.dumps({"question": f"item{i}x", "answer": f"word{i} " * 30}) + chr(10))
async def judge(messages):
    text = messages[-1]["content"]
    if int(text.split("item")[1].split("x")[0]) % 50 == 0:
        raise JudgeError(Status.SERVER_ERROR, "HTTP 500")
    return '{"reason": "as asked", "score": 4}'
result = evaluate(data=folder + "/rows.jsonl", metrics_list=["gpt_coherence"], judge=judge, store=folder + "/s.sqlite")
assert result.summary["evaluators"]["gpt_coherence"]["n"] == rows - rows // 50
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def peak_megabytes(rows: int, folder: Path, program: str = ROWS_PROGRAM) -> float:
    folder.mkdir()
    done = subprocess.run([sys.executable, "-c", program, str(rows), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    more = peak_megabytes(21_000, tmp_path / "many") - peak_megabytes(1_000, tmp_path / "few")
    assert more < 16, more  # 100,000 rows may take 50 MB more: a fifth of them 10, and the noise of an allocator


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_the_rows_whose_judgement_fails(tmp_path: Path) -> None:
    """What waits to be asked last is bounded: 2% of the prompts always fail."""
    few = peak_megabytes(5_000, tmp_path / "few", JUDGED_PROGRAM)
    assert (more := peak_megabytes(25_000, tmp_path / "many", JUDGED_PROGRAM) - few) < 16, more


def test_judge_has_as_many_requests_at_once_as_it_may(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    together = threading.Barrier(32, timeout=120)

    def score(name: str, request: Request) -> float:
        if request.number < 32:
            together.wait()  # nobody passes before all 32 have come
        return 4

    rows = [{"question": f"number {i}", "answer": "an answer"} for i in range(100)]
    with ScriptedJudge(score) as judge:
        result = evaluate(data=rows, metrics_list=["gpt_fluency"], model_config=judge.config, max_concurrency=32,
                          store=tmp_path / "store.sqlite")  # fmt: skip
    assert result.metrics_summary == {"mean_gpt_fluency": 4.0}
    assert judge.peak == 32 and len(judge.requests) == 100
    assert len({json.dumps(request.body["messages"]) for request in judge.requests}) == 100  # each row once
