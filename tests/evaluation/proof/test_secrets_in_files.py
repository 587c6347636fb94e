"""Keys of judge, target and embeddings are in no file of a run, whatever the servers send back."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.proof.scripted import ScriptedJudge, metric_of
from tests.judge.server import Answer, Request, failure
from valor_gpu import evaluate

pytest.importorskip("openai")
JUDGE_KEY, ENV_KEY, TARGET_KEY, URL_KEY = "sk-judge-4f19c7e2", "sk-env-77b0a1d3", "Bearer tgt-5c88e9d0", "sig-90aa41bc"
KEYS = (JUDGE_KEY, ENV_KEY, TARGET_KEY, "tgt-5c88e9d0", URL_KEY)


class Echoing(ScriptedJudge):
    """Sends back what it was sent: headers and address, in a 400 of every second row, and in reasons of the others."""

    def __init__(self) -> None:
        super().__init__(lambda name, request: 3)

    def _respond(self, request: Request) -> Answer | str:
        echo = json.dumps({**request.headers, "address": request.path})
        row = 1 if "number 1" in json.dumps(request.body) else 0
        if request.path.startswith("/answer"):
            return Answer(400 if row else 200, {"answer": "an answer", "error": echo})
        assert metric_of(request)
        if row:
            return failure(400, f"bad request: {echo}", x_echo=request.headers["authorization"])
        return json.dumps({"reason": f"I saw {echo}", "score": 3, "status": "completed"})


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def leaks(folder: Path) -> list[str]:
    return [
        f"{key} in {path.name}" for path, content in files_of(folder).items() for key in KEYS if key.encode() in content
    ]


@pytest.mark.parametrize("by_value", [True, False])
def test_keys_are_in_no_file(
    by_value: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("KEY_BY_NAME", ENV_KEY)
    monkeypatch.setenv("TARGET_BY_NAME", TARGET_KEY)
    rows = [{"question": f"number {i}", "ground_truth": "g"} for i in range(4)]
    with Echoing() as server, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        key: dict[str, Any] = {"api_key": JUDGE_KEY} if by_value else {"api_key_env": "KEY_BY_NAME"}
        header = TARGET_KEY if by_value else "${env:TARGET_BY_NAME}"
        result = evaluate(
            data=rows,
            target={"url": f"{server.root}/answer?sig={URL_KEY}", "headers": {"Authorization": header}},
            metrics_list=["gpt_coherence", "f1_score"],
            model_config={"base_url": server.url, "model": "stub", **key},
            output_path=tmp_path / "out", store=tmp_path / "store.sqlite", cache=tmp_path / "cache.sqlite",
        )  # fmt: skip
        assert leaks(tmp_path) == []  # with the write-ahead logs, before anything is closed
        result.to_html(tmp_path / "report.html")
        sent = {
            name: [r.headers.get("authorization") for r in server.requests if r.path.startswith(name)]
            for name in ("/answer", "/v1")
        }
    assert set(sent["/answer"]) == {TARGET_KEY} and set(sent["/v1"]) == {f"Bearer {JUDGE_KEY if by_value else ENV_KEY}"}
    texts = [repr(result), str(result), json.dumps(list(result.errors), default=str)]
    result.store.close()
    assert leaks(tmp_path) == []
    shown = capsys.readouterr()
    told = [str(one.message) for one in warned] + [log.getvalue(), shown.out, shown.err, *texts]
    assert [key for key in KEYS for text in told if key in text] == []
    assert any(b"I saw" in content for content in files_of(tmp_path).values())  # the reasons themselves are kept


def test_a_400_that_echoes_the_key_is_kept_without_it(tmp_path: Path) -> None:
    with Echoing() as server, pytest.warns(UserWarning, match="has a score of gpt_coherence") as told:
        result = evaluate(
            data=[{"question": "number 1", "answer": "a"}], metrics_list=["gpt_coherence"],
            model_config={"base_url": server.url, "model": "stub", "api_key": JUDGE_KEY},
            output_path=tmp_path / "out", store=tmp_path / "store.sqlite",
        )  # fmt: skip
    (row,) = result.rows
    assert row["gpt_coherence"] is None and "bad request" in row["gpt_coherence_reason"]
    result.store.close()
    assert JUDGE_KEY not in str(told[0].message) and leaks(tmp_path) == []
