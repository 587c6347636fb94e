"""A chat-completions server on loopback that answers as a script says and keeps what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class Answer:
    """One HTTP answer."""

    status: int = 200
    body: Any = None  # JSON value, or bytes sent as they are
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang: bool = False
    drop: bool = False  # close the connection without an answer


def completion(
    text: str | None, finish_reason: str = "stop", refusal: str | None = None, usage: Any = (10, 5), **choice: Any
) -> Answer:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    tokens = None
    if usage is not None:
        tokens = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage[:2])}
        if len(usage) > 2:
            tokens["prompt_tokens_details"] = {"cached_tokens": usage[2]}
    choices = [{"index": 0, "message": message, "finish_reason": finish_reason, **choice}]
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub-1", "choices": choices}
    return Answer(body=body | {"usage": tokens})


def failure(status: int, message: str, code: str | None = None, param: str | None = None, **headers: str) -> Answer:
    error = {"message": message, "type": code or "invalid_request_error", "param": param, "code": code}
    return Answer(status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Request:
    """One request as it came."""

    number: int
    time: float
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.body["messages"][-1]["content"])


class ChatServer:
    """Context manager; ``respond(request)`` gives an :class:`Answer` or the text of one."""

    def __init__(self, respond: Callable[[Request], Answer | str]) -> None:
        self.respond = respond
        self.requests: list[Request] = []
        self.finished: list[Request] = []  # answered in full
        self.active = self.peak = 0
        self.lock = threading.Lock()
        self.sockets: set[Any] = set()  # of open connections
        self.closing = threading.Event()

    def __enter__(self) -> Self:
        self.listen(0)
        return self

    def listen(self, port: int) -> None:
        """Serves on a port of loopback; 0 for a free one."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # the body would wait 40 ms for the acknowledgement of the header

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                owner.handle(self, body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                pass  # clients that went away at their deadline

            def get_request(self) -> tuple[Any, Any]:
                accepted = super().get_request()
                owner.sockets.add(accepted[0])
                return accepted

            def shutdown_request(self, request: Any) -> None:
                owner.sockets.discard(request)
                super().shutdown_request(request)

        self.httpd = Server(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.unlisten()

    def unlisten(self) -> None:
        """Takes no connection any more; those that are open stay."""
        self.httpd.shutdown()
        self.httpd.server_close()
        self.thread.join()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.httpd.server_address[1]}"

    @property
    def url(self) -> str:
        return self.root + "/v1"

    def handle(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self.lock:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            request = Request(len(self.requests), time.monotonic(), handler.path, headers, body)
            self.requests.append(request)
            self.active += 1
            self.peak = max(self.peak, self.active)
        try:
            answer = self.respond(request)
            answer = completion(answer) if isinstance(answer, str) else answer
            time.sleep(answer.delay)
            if answer.hang:
                self.closing.wait(30)
        finally:
            with self.lock:  # before the answer goes out: after it the client may ask again
                self.active -= 1
        self.send(handler, answer)
        with self.lock:
            self.finished.append(request)

    def send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        if answer.hang or answer.drop:
            handler.close_connection = True
            return
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {"content-type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
