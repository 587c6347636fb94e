"""Further headers of every request of a client, which may hold secrets. No torch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.protocol import JudgeError, Status

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OF_CLIENT = ("host", "content-length", "content-type", "transfer-encoding", "accept-encoding", "connection", "accept")
_SHORTEST = 8  # characters of a secret; a shorter text is a word that messages may hold


class ExtraHeaders:
    """Headers by name; neither their values nor those of variables are shown or pickled.

    Args:
        given: name to text, in which ``${env:NAME}`` stands for an environment variable, which is read when a
            connection is made; None for no headers.

    Raises:
        InputError: a name or text that cannot be, or a header that the client sets itself; no value is shown.

    Example:
        >>> ExtraHeaders({"x-team": "evaluation"})
        ExtraHeaders(x-team)
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        check_type("extra_headers", given, (Mapping, type(None)))
        self.given = dict(given or {})
        for name, value in self.given.items():
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
                raise InputError("extra_headers must have names of headers but has another one")
            if name.lower() in _OF_CLIENT:
                raise InputError(
                    f"extra_headers must hold further headers but has {name!r}, which the client sets itself"
                )
            if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?", value):
                raise InputError(
                    f"extra_headers[{name!r}] must be a text of printable ASCII without spaces around it but is not"
                )

    def __repr__(self) -> str:
        return f"ExtraHeaders({', '.join(self.given)})"

    def __reduce__(self) -> Any:
        if by_value := [name for name, value in self.given.items() if not _REFERENCE.search(value)]:
            raise InputError(
                f"extra_headers[{by_value[0]!r}] stays in its process, since it is given by value: write ${{env:NAME}}"
            )
        return ExtraHeaders, (self.given,)

    def names(self) -> set[str]:
        """The names in lower case."""
        return {name.lower() for name in self.given}

    def read(self) -> dict[str, str]:
        """The headers, with the values of variables.

        Raises:
            JudgeError: ``unauthorized``, since a variable is not set.
        """
        for name, value in self.given.items():
            for variable in _REFERENCE.findall(value):
                if not os.environ.get(variable):
                    raise JudgeError(
                        Status.UNAUTHORIZED,
                        f"the environment variable {variable} must hold the header {name} but is not set",
                    )
        return {name: _REFERENCE.sub(lambda match: os.environ[match[1]], value) for name, value in self.given.items()}

    def masked(self, text: str) -> str:
        """A text without the values of the headers that some servers quote."""
        for value in self.given.values():
            sent = _REFERENCE.sub(lambda match: os.environ.get(match[1], ""), value)
            for each in (sent, sent.rpartition(" ")[2]):  # behind a scheme such as Bearer
                if len(each) >= _SHORTEST:
                    text = text.replace(each, "***")
        return text
