"""A server process of Studio, and how long its pages take: whole requests over loopback, read to their end."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testing.datasets import ROOT

_LONGEST_ANSWER = 600.0  # seconds of a page


@contextmanager
def server(store: Path) -> Iterator[tuple[http.client.HTTPConnection, dict[str, str]]]:
    """A server process, a connection to it and the header that opens it."""
    command = [sys.executable, "-u", "-m", "valor_gpu", "studio", "--port", "0", "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        start = next(line.strip() for line in process.stdout if "/start?token=" in line)
        host, token = re.findall(r"//([^/]+)(/start.*)", start)[0]
        connection = http.client.HTTPConnection(host, timeout=_LONGEST_ANSWER)
        connection.request("GET", token)
        answer = connection.getresponse()
        answer.read()
        yield connection, {"cookie": str(answer.getheader("set-cookie")).split(";")[0]}
        connection.close()
    finally:
        process.terminate()
        process.communicate(timeout=10)


def timed(connection: http.client.HTTPConnection, headers: dict[str, str], path: str) -> tuple[float, int, str]:
    """Seconds, status and text of one page."""
    begin = time.perf_counter()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read()
    return time.perf_counter() - begin, answer.status, text.decode()
