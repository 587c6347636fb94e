"""Studio tells readers of its store where a run is shown."""

from __future__ import annotations

import gc
import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from valor_gpu.cli import main
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.run import evaluate
from valor_gpu.store import Store
from valor_gpu.web import server


def status(address: str, cookie: str = "") -> int:
    """The status of a page."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request("GET", f"{parts.path}?{parts.query}", headers={"Cookie": cookie} if cookie else {})
    found = connection.getresponse()
    found.read()
    connection.close()
    return found.status


def cookie_of(start: str) -> str:
    """The cookie that the start address gives."""
    parts = urlsplit(start)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request("GET", f"{parts.path}?{parts.query}")
    found = (connection.getresponse().getheader("set-cookie") or "").partition(";")[0]
    connection.close()
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_studio_url_is_the_page_of_the_run_while_studio_serves(
    tmp_path: Path, how: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.sqlite"
    command = [sys.executable, "-u", "-m", "valor_gpu", "studio", "--port", "0", "--store", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio, Store(path) as store:
        try:
            assert studio.stdout is not None
            start = next(line.strip() for line in studio.stdout if "/start?token=" in line)
            result = evaluate(data=[{"answer": "a", "ground_truth": "a"}], metrics_list=["exact_match"], store=store)
            assert result.studio_url == f"{start.partition('/start')[0]}/runs/{result.run_id}"
            assert status(result.studio_url, cookie_of(start)) == 200 and status(result.studio_url) == 403
            assert main(["eval", "show", result.run_id, "--store", str(path)]) == 0
            assert f"studio: {result.studio_url}\n" in capsys.readouterr().out
            assert main(["eval", "show", result.run_id, "--store", str(path), "--json", "-"]) == 0
            assert json.loads(capsys.readouterr().out)["studio_url"] == result.studio_url
            [file] = tmp_path.glob("*.studio")
            assert start.partition("token=")[2] not in file.read_text()
            with Store(tmp_path / "other.sqlite") as other:
                assert EvaluationResult(other, other.create_run("x", {})).studio_url is None
        finally:
            studio.send_signal(how)
            studio.wait(60)
        assert result.studio_url is None
        assert file.exists() == (how is signal.SIGKILL)
        assert main(["eval", "show", result.run_id, "--store", str(path)]) == 0
        assert "studio: " not in capsys.readouterr().out


def test_studio_serves_without_a_file_beside_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: object
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    served = []
    monkeypatch.setattr(server, "announced", full)
    monkeypatch.setattr(server._Server, "run", lambda self, sockets: served.append(sockets))
    server.serve(tmp_path / "store.sqlite", port=0, say=lambda text: None)
    assert len(served) == 1 and "No space left on device" in log.getvalue()  # type: ignore[attr-defined]


def test_a_server_gives_back_what_its_pages_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collects = []
    monkeypatch.setattr(server._Server, "run", lambda self, sockets: collects.append(gc.isenabled()))
    gc.disable()  # as the process of a command begins
    try:
        assert main(["studio", "--port", "0", "--store", str(tmp_path / "store.sqlite")]) == 0
    finally:
        gc.enable()
    assert collects == [True]
