"""Routes: handlers are plain functions of what was asked, run in a thread, since the store is read by SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from valor_gpu.errors import DamageError
from valor_gpu.store.checksums import damages_met
from valor_gpu.web.security import Message
from valor_gpu.web.studio import Studio
from valor_gpu.web.typed import read_carried

FORM_BYTES = 4 << 20
UPLOAD_BYTES = 1 << 30


class _Number(IntegerConvertor):
    """``{name:number}`` in a route: a number that a row can have. Python converts no text of 5,000 digits."""

    regex = "[0-9]{1,15}"


register_url_convertor("number", _Number())


class Ask:
    """What was asked of a handler.

    Attributes:
        studio: store, session and settings of the server.
        path: parts of the address, by the names in its route.
        query: the texts behind the question mark, the last one of each name.
        form: fields of a form; None for a request that only reads.
        damages: what lists of the store had to leave out so far, since it is damaged.
    """

    def __init__(self, request: Request, form: FormData | None = None) -> None:
        self.request, self.form = request, form
        self.damages: list[DamageError] = []
        self.studio: Studio = request.app.state.studio
        self.path: dict[str, Any] = request.path_params
        pairs = request.query_params.multi_items()
        self.query = QueryParams([(name, read_carried(text)) for name, text in pairs])

    def many(self, name: str) -> list[str]:
        """All texts of a name behind the question mark."""
        return [text for text in self.query.getlist(name) if text]

    def field(self, name: str, default: str = "") -> str:
        """The text of a form's field, without blanks at its ends."""
        found = None if self.form is None else self.form.get(name)
        return read_carried(found.strip()) if isinstance(found, str) else default

    def fields(self, name: str) -> list[str]:
        """All texts of a form's field."""
        found = [] if self.form is None else self.form.getlist(name)
        return [read_carried(text) for text in found if isinstance(text, str)]

    def upload(self, name: str) -> UploadFile | None:
        """The file of a form's field, if one was chosen."""
        found = None if self.form is None else self.form.get(name)
        return found if isinstance(found, UploadFile) and found.filename else None


Handler = Callable[[Ask], Response]


def _answer(handler: Handler, ask: Ask) -> Response:
    """What a handler returns.

    Raises:
        RuntimeError: in place of what would end the server, such as SystemExit of a user's module, or leave the request
            without an answer, as StopIteration does, which no future takes.
    """
    try:
        with damages_met() as ask.damages:
            return handler(ask)
    except Exception as error:
        if not isinstance(error, StopIteration):
            raise
        raise RuntimeError("a page ended with StopIteration") from error
    except BaseException as error:
        raise RuntimeError(f"a page ended with {type(error).__name__}") from error


def get(path: str, handler: Handler) -> Route:
    """A route that reads."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_answer, handler, Ask(request))

    return Route(path, endpoint, methods=["GET"], name=handler.__name__)


def post(path: str, handler: Handler, most: int = FORM_BYTES) -> Route:
    """A route that changes something: its form must have the hidden field of :func:`csrf_field`.

    Args:
        path: of the route.
        handler: gets the form.
        most: bytes of the whole form.
    """

    async def endpoint(request: Request) -> Response:
        body = _Body(request, most)
        bounded = Request(request.scope, body.receive)
        async with bounded.form(max_files=1, max_fields=2000, max_part_size=FORM_BYTES) as form:
            if not body.is_whole():
                raise HTTPException(400, "This form came without its end, so nothing of it was taken. Send it again.")
            if not request.app.state.studio.session.is_form(form.get("csrf")):
                raise HTTPException(
                    403, "This form is from an earlier start of the server. Reload its page, then send it again."
                )
            return await run_in_threadpool(_answer, handler, Ask(bounded, form))

    return Route(path, endpoint, methods=["POST"], name=handler.__name__)


class _Body:
    """The body of a form as it comes.

    Args:
        request: of the form.
        most: bytes; behind them reading ends with an error, since a Content-Length may be wrong or missing.
    """

    def __init__(self, request: Request, most: int) -> None:
        kind, options = parse_options_header(request.headers.get("content-type"))
        self._mark = b"--" + options.get(b"boundary", b"") + b"--" if kind == b"multipart/form-data" else b""
        self._receive, self._most = request.receive, most
        self._seen, self._end = 0, b""

    async def receive(self) -> Message:
        """The next message of the body."""
        message = await self._receive()
        piece = message.get("body", b"")
        self._seen += len(piece)
        self._end = (self._end + piece[-len(self._mark) - 2 :])[-len(self._mark) - 2 :]
        if self._seen > self._most:
            raise HTTPException(413, f"A form may have {self._most >> 20:,} MB, and this one has more.")
        return message

    def is_whole(self) -> bool:
        """Whether the body has come to its end, which the parser of parts does not ask for."""
        return self._end.rstrip(b"\r\n").endswith(self._mark)


def see(path: str, **query: str) -> RedirectResponse:
    """Leads on to a page of this server after a form was taken."""
    return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, status_code=303)


def missing(text: str) -> HTTPException:
    """Error for a thing that is not there, with what there is instead."""
    return HTTPException(404, text)
