"""The log of a run's process has no secrets, whoever wrote it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.judge.server import ChatServer
from tests.web.work import KEY, ROWS, wait
from valor_gpu.evaluation.engine.plan import make_plan
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.store import Store
from valor_gpu.web.processes import jobs

START = """
import os, sys
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.web.processes.masking import masked_output
secrets = Secrets()
secrets.add("a-long-secret")
with masked_output(secrets):
"""


@pytest.mark.parametrize(
    ("code", "expected", "status"),
    [
        ('os.write(2, b"one a-long-secret\\n"); print("two a-long-secret")', "one ***\ntwo ***\n", 0),
        ('os.system("echo a-long-secret")', "***\n", 0),
        ('print("no end a-long-secret", end="")', "no end ***", 0),
        ('os.write(1, b"a-long-secret \\xff\\n")', "*** \udcff\n", 0),
        ('os.write(1, b"x" * 200_000 + b" a-long-secret\\n")', "x" * 200_000 + " ***\n", 0),
        ('print("before a-long-secret", flush=True); os.abort()', "before ***\n", -6),
    ],
)
def test_all_that_is_printed_is_masked(tmp_path: Path, code: str, expected: str, status: int) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        ended = subprocess.run([sys.executable, "-c", f"{START}    {code}\n"], stdout=file, stderr=file, timeout=60)
    assert ended.returncode == status

    def whole() -> bool:
        return len(log.read_bytes()) >= len(expected.encode(errors="surrogateescape"))

    wait(whole, 10)
    assert log.read_text(errors="surrogateescape") == expected


def test_the_log_of_a_run_whose_target_prints_below_python(path: Path, server: ChatServer) -> None:
    target = path.parent / "loud.py"
    target.write_text(
        "import os\ndef answer(question):\n    key = os.environ['STUDIO_TEST_KEY']\n"
        "    os.write(2, f'C says {key}\\n'.encode()); os.system('echo program says $STUDIO_TEST_KEY')\n"
        "    return question\n"
    )
    judge = {"model": "stub", "base_url": server.url, "api_key_env": "STUDIO_TEST_KEY"}
    settings = Settings(data=str(path.parent / "rows.csv"), target=f"{target}:answer", metrics_list=["gpt_coherence"],
                        model_config=judge)  # fmt: skip
    with Store(path) as store:
        config = make_plan(settings, store).config
        uid = store.create_run("loud", config.to_dict(), None, config.data["hash"]).id
        jobs.start(store, uid)
        wait(lambda: store.run(uid).state == "finished")
        wait(lambda: store.views.list(jobs.JOB) == [])
        log = jobs.log_path(store, uid).read_text()
    assert log.count("C says ***") == log.count("program says ***") == ROWS
    assert KEY not in log and f"run {uid} is finished" in log
