"""Secure connections that fail: targets, judges and embedders say why, and ask no more than can help."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.judge.server import Answer, ChatServer, completion
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets.http import HttpTarget
from valor_gpu.judge import JudgeError, OpenAIJudge, Status
from valor_gpu.judge.tls import connection_failure
from valor_gpu.text import OpenAIEmbedder

pytest.importorskip("openai")
CERTIFICATES = Path(__file__).with_name("certificates")
"""Keys with certificates of their own: of localhost and 127.0.0.1, of another host, and of localhost until 2021."""
KEY = "sk-a-secret-of-ours"


@contextlib.contextmanager
def secure(name: str) -> Iterator[ChatServer]:
    """A server of TLS by one of the certificates."""
    body = {**completion("4").body, "answer": "4", "data": [{"index": 0, "embedding": [3.0, 4.0]}]}
    with ChatServer(lambda request: Answer(body=body)) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATES / f"{name}.pem")
        plain = server.httpd.socket
        server.httpd.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        yield server


@contextlib.contextmanager
def address_of(kind: str) -> Iterator[str]:
    """An address of a server of a kind, and its scheme."""
    if kind == "closes":
        with closing() as port:
            yield f"https://127.0.0.1:{port}"
    elif kind == "plain":
        with ChatServer(lambda request: "4") as server:
            yield server.root.replace("http:", "https:")
    else:
        with secure("localhost" if kind == "unencrypted" else kind) as server:
            yield server.root if kind == "unencrypted" else server.root.replace("http:", "https:")


@contextlib.contextmanager
def closing() -> Iterator[int]:
    """The port of a server that closes every connection when it is spoken to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def of_target(address: str) -> str:
    """The error of a row, or its answer."""
    given = {"url": f"{address}/ask", "headers": {"authorization": f"Bearer {KEY}"}, "answer": "answer", "retries": 0}
    target = HttpTarget({**given, "allow_http": True}, Secrets(), 30.0)

    async def asked() -> str:
        answer = await target.answer({"question": "2 + 2"})
        await target.close()
        return answer.error or str(answer.outputs["answer"])

    return asyncio.run(asked())


def of_judge(address: str) -> str:
    judge = OpenAIJudge("m", base_url=f"{address}/v1", api_key_env="MY_KEY")

    async def asked() -> str:
        try:
            return (await judge([{"role": "user", "content": "2 + 2"}])).text
        except JudgeError as error:
            assert error.status is Status.CONNECTION_ERROR
            return str(error)
        finally:
            await judge.aclose()

    return asyncio.run(asked())


def of_embedder(address: str) -> str:
    try:
        return str(OpenAIEmbedder("m", f"{address}/v1", "MY_KEY", retries=0)(["x"]).shape[1] + 2)
    except JudgeError as error:
        assert error.status is Status.CONNECTION_ERROR
        return str(error)


ASKERS = [of_target, of_judge, of_embedder]
FAILURES = {
    "localhost": r"no secure connection to 127\.0\.0\.1:\d+: its certificate is self-signed: .* SSL_CERT_FILE",
    "plain": "it does not speak TLS: does the address begin with http://",
    "closes": "it closed the connection before TLS was agreed on .*has answered nothing yet",
    "unencrypted": "no connection: (RemoteProtocolError|ReadError) .*does it begin with https://",
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


def found(error: str) -> None:
    """Raises what was told, so that its pattern is looked at."""
    assert KEY not in error
    raise JudgeError(Status.CONNECTION_ERROR, error)


@pytest.mark.parametrize("asked", ASKERS)
@pytest.mark.parametrize("kind", FAILURES)
def test_why_there_is_no_secure_connection(kind: str, asked: Callable[[str], str]) -> None:
    with address_of(kind) as address, pytest.raises(JudgeError, match=FAILURES[kind]):
        found(asked(address))


@pytest.mark.parametrize("asked", ASKERS)
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("elsewhere", "its certificate is that of another host: is the address right"),
        ("expired", "its certificate has expired: let its operator renew it"),
    ],
)
def test_certificates_that_are_trusted_but_wrong(
    kind: str, error: str, asked: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / f"{kind}.pem"))
    with address_of(kind) as address, pytest.raises(JudgeError, match=error):
        found(asked(address))


@pytest.mark.parametrize("asked", ASKERS)
def test_a_server_of_this_machine_whose_certificate_is_named(
    asked: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "localhost.pem"))
    with address_of("localhost") as address:
        assert asked(address) == asked(address.replace("127.0.0.1", "localhost")) == "4"


@pytest.mark.parametrize("asked", ASKERS)
def test_a_variable_that_names_no_certificates(
    asked: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty.pem").write_text("none")
    for place, reason in ((tmp_path / "none.pem", "No such file"), (tmp_path / "empty.pem", "no certificate in PEM")):
        monkeypatch.setenv("SSL_CERT_FILE", str(place))
        try:
            told = asked("https://127.0.0.1:9")
        except (JudgeError, AssertionError) as error:  # of another status
            told = str(error.__context__ or error)
        assert f"variable SSL_CERT_FILE must name a file of certificates but '{place}': {reason}" in told


def test_certificates_are_not_tried_again() -> None:
    accepted: list[object] = []
    with secure("localhost") as server:
        take = server.httpd.get_request

        def counted() -> tuple[object, object]:
            pair = take()
            accepted.append(pair)
            return pair

        server.httpd.get_request = counted  # type: ignore[method-assign]
        with pytest.raises(JudgeError, match="self-signed"):
            OpenAIEmbedder("m", server.url.replace("http:", "https:"), retries=4)(["x"])
    assert len(accepted) == 1
    assert connection_failure(ssl.SSLCertVerificationError(), "https://host").max_retries == 0


def test_other_failures_of_tls_are_named() -> None:
    refused = ssl.SSLError()
    refused.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    told = str(connection_failure(refused, "https://user:secret@host:8443/v1"))
    assert told == "no secure connection to host:8443: TLS failed: tlsv13 alert certificate required"
