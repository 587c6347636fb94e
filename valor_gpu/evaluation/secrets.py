r"""Secrets of a run: what must appear in no file, message or page. No torch.

Keys are named by environment variables, ``${env:NAME}`` in headers and addresses. Their values, and those that were
given as they are, are added to a :class:`Secrets`, which masks them in every text that is stored or shown.

Example:
    >>> secrets = Secrets()
    >>> secrets.add("sk-1234567890")
    >>> secrets.mask("HTTP 400: no such key sk-1234567890 at https://me:pw@host/v1?sig=Zm9v")
    'HTTP 400: no such key *** at https://***@host/v1?sig=***'
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError

MASK = "***"
_REFERENCE = re.compile(r"\$\{env:([^{}]{0,200})\}")
_LONG = 8  # characters from which a secret is masked within other words
_SHORTEST = 3
_SCHEMES = ("bearer", "basic", "token", "apikey", "digest", "negotiate")
_STAND_INS = {
    *("none", "null", "empty", "dummy", "fake", "test", "testing", "key", "secret", "token", "ollama", "vllm", "local"),
    *("localhost", "lm-studio", "not-needed", "no-key", "no-key-required", "no-key-needed", "not-used", "unused"),
    *("placeholder", "api-key", "your-api-key", "changeme", "true", "false"),
}
"""What people give as the key of servers that want none; masking these words would change answers."""

_SENSITIVE = (
    r"authorization|x-functions-key|ocp-apim-subscription-key|subscription-key|subscription_key|(?:set-)?cookie|"
    r"(?:[a-z0-9]+[-_]){0,4}(?:api[-_]?key|access[-_]?key|account[-_]?key|auth[-_]?token|access[-_]?token|"
    r"client[-_]?secret|password|passwd|signature)"
)
_NAMED = re.compile(
    rf"(?<![a-z0-9])({_SENSITIVE})"  # name
    r"([\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}|[\"']\s{0,4},\s{0,4}b?[\"'])"  # to its value: header, JSON, Python
    r"((?!(?:[a-z]{1,9}\s{1,4})?\$\{env:)(?:(?:bearer|basic|token|apikey|digest|negotiate)\s{1,4})?[^\s\"'\\,;&}<>]{1,8192})",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(bearer|basic)(\s{1,4})([A-Za-z0-9._~+/=-]{8,8192})", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]{1,20}://)[^\s/?#@\"'<>]{1,1024}@", re.IGNORECASE)
_QUERY = re.compile(
    r"([?&;](?:[a-z0-9_-]{0,30}(?:key|token|secret|password|signature)|sig|code|pwd|auth|sas)=)(?!\$\{env:)[^\s&;#\"'<>]{1,8192}",
    re.IGNORECASE,
)
_OPENAI = re.compile(r"\bsk-[A-Za-z0-9_-]{16,200}")
_SECRET_NAME = re.compile(
    r"auth|key|token|secret|passw|pwd|cookie|credential|signature|^sig$|^sas$|^code$", re.IGNORECASE
)


class Secrets:
    """Values that are masked wherever they would be stored or shown.

    The values are held in memory only: neither ``repr`` nor a pickle has them.
    """

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._lower: tuple[str, ...] = ()
        self._long: re.Pattern[str] | None = None
        self._short: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} values)"

    def __reduce__(self) -> Any:
        raise InputError("secrets stay in their process: name environment variables with ${env:NAME}")

    def add(self, value: str | None) -> None:
        """Adds a secret: a key, a password, or a header's value such as ``Bearer ...``.

        Values shorter than 3 characters, and words such as ``none`` and ``ollama`` that stand for no key, are none.
        Those shorter than 8 characters are masked in messages where they stand alone, and never in answers.

        Args:
            value: None is no secret.
        """
        if value is None:
            return
        check_type("a secret", value, str)
        scheme, _, rest = value.strip().partition(" ")
        if rest and scheme.lower() in _SCHEMES:
            value = rest
            if scheme.lower() == "basic":
                self._add_basic(rest.strip())
        value = value.strip()
        if len(value) < _SHORTEST or value.lower() in _STAND_INS:
            return
        self._values.add(value)
        forms = {form for each in self._values for form in _forms(each)}
        long = {form for form in forms if len(form) >= _LONG}
        self._lower = tuple({form.lower() for form in long})
        self._long = _any_of(long, "", "")
        self._short = _any_of({form for form in forms if len(form) < _LONG}, r"(?<![\w-])", r"(?![\w-])")

    def _add_basic(self, coded: str) -> None:
        """Adds the password within the credentials of RFC 7617."""
        try:
            decoded = base64.b64decode(coded, validate=True).decode()
        except ValueError:
            return
        self.add(decoded.partition(":")[2])

    def mask(self, text: str) -> str:
        """A message without secrets: those that were added, and what looks like one.

        That is the user and password of an address, values of ``key=``, ``sig=``, ``token=`` and the like in its
        query, headers such as ``Authorization`` and ``api-key``, and keys of OpenAI's form.
        """
        if self._short is not None:
            text = self._short.sub(MASK, text)
        text = _IN_ADDRESS.sub(rf"\1{MASK}@", self.mask_known(text))
        text = _QUERY.sub(rf"\1{MASK}", text)
        text = _NAMED.sub(rf"\1\2{MASK}", text)
        text = _SCHEME.sub(rf"\1\2{MASK}", text)
        return _OPENAI.sub(MASK, text)

    def mask_known(self, text: str) -> str:
        """A text in which only the secrets that were added, of 8 characters or more, are masked: for answers."""
        if self._long is None:
            return text
        lower = text.lower()  # answers hardly ever hold a secret, and a search for plain texts is far faster
        return self._long.sub(MASK, text) if any(form in lower for form in self._lower) else text

    def mask_json(self, value: Any, known: bool = False) -> Any:
        """A JSON value, of a configuration say, whose texts are masked as messages.

        Texts under a name such as ``api_key`` or ``Authorization`` are masked whole, unless they are references
        ``${env:NAME}``; a name that ends in ``_env`` holds the name of a variable.

        Args:
            value: that is masked.
            known: mask other texts as :meth:`mask_known` does: parameters must not change for looking like a secret.

        Example:
            >>> Secrets().mask_json({"api_key": "abc", "api_key_env": "KEY", "headers": {"x-token": "${env:TOKEN}"}})
            {'api_key': '***', 'api_key_env': 'KEY', 'headers': {'x-token': '${env:TOKEN}'}}
        """
        mask = self.mask_known if known else self.mask
        if isinstance(value, str):
            return mask(value)
        if isinstance(value, Mapping):
            return {mask(str(name)): self._mask_named(str(name), each, known) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.mask_json(each, known) for each in value]
        return value

    def _mask_named(self, name: str, value: Any, known: bool) -> Any:
        if isinstance(value, str) and is_secret_name(name) and not names_secret(name, value):
            return MASK if value else value
        return self.mask_json(value, known)

    def mask_data(self, value: Any) -> Any:
        """A JSON value that is data, an answer say: as it is, but for the secrets of :meth:`mask_known`."""
        if self._long is None:
            return value
        if isinstance(value, str):
            return self.mask_known(value)
        if isinstance(value, Mapping):
            return {self.mask_known(name): self.mask_data(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.mask_data(each) for each in value]
        return value

    def message(self, text: str, limit: int = 2000) -> str:
        """The beginning of a text as a message: masked before it is cut, so that no half of a secret is left."""
        return self.mask(text[: 50 * limit])[:limit]

    @property
    def longest(self) -> int:
        """Characters of the longest secret, in any of its forms: as many a text that was cut off may end in."""
        return max((len(form) for value in self._values for form in _forms(value)), default=0)


def is_secret_name(name: str) -> bool:
    """Whether a header, parameter or key of that name holds a secret.

    Example:
        >>> [is_secret_name(name) for name in ("X-Api-Key", "api_key_env", "max_tokens", "accept")]
        [True, False, False, False]
    """
    if re.search(r"(^|[_-])env$|tokens$|tokenizer$|^(row|data|sort)?_?keys?$", name, re.IGNORECASE):
        return False
    return _SECRET_NAME.search(name) is not None


def names_secret(name: str, text: str) -> bool:
    """Whether a text under the name of a secret holds none: references to variables, or how to sign in.

    Example:
        >>> names_secret("credential", "default"), names_secret("api_key", "${env:KEY}")
        (True, True)
    """
    return _has_only_references(text) or (name == "credential" and text == "default")


def has_reference(text: str) -> bool:
    """Whether a text has a reference ``${env:NAME}``."""
    return _REFERENCE.search(text) is not None


def _has_only_references(text: str) -> bool:
    """Whether a text is references to variables, perhaps after a scheme such as ``Bearer``."""
    if not has_reference(text):
        return False
    return re.fullmatch(rf"\W*((?:{'|'.join(_SCHEMES)})\W*)?", _REFERENCE.sub("", text), re.IGNORECASE) is not None


def resolve_env(text: str, secrets: Secrets | None = None, name: str = "a text", in_query: bool = False) -> str:
    """A text with the values of environment variables in the places of ``${env:NAME}``.

    Args:
        text: what is not such a reference stays as it is.
        secrets: gets the values.
        name: of the text, for messages.
        in_query: whether the text is the query of an address, in which values are quoted.

    Raises:
        InputError: a variable that is not set, or a name that is none.

    Example:
        >>> import os
        >>> os.environ["VALOR_GPU_DOC"] = "value"
        >>> resolve_env("Bearer ${env:VALOR_GPU_DOC}")
        'Bearer value'
    """
    check_type(name, text, str)

    def value_of(match: re.Match[str]) -> str:
        variable = match[1]
        if not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII):
            raise InputError(f"{name} must name an environment variable in ${{env:NAME}} but has a text that is none")
        if not os.environ.get(variable):
            raise InputError(f"{name} needs the environment variable {variable}, which is not set")
        if secrets is not None:
            secrets.add(os.environ[variable])
        return quote(os.environ[variable], safe="") if in_query else os.environ[variable]

    return _REFERENCE.sub(value_of, text)


def _forms(value: str) -> set[str]:
    """A secret as it may be quoted: as it is, in an address, in JSON, in Python, in base64."""
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
    if len(value) >= _LONG:
        coded = base64.b64encode(value.encode(errors="surrogatepass")).decode()
        forms |= {coded, base64.urlsafe_b64encode(value.encode(errors="surrogatepass")).decode()}
        forms |= {coded.rstrip("="), quote(coded, safe="")}
    return forms


def _any_of(forms: set[str], before: str, behind: str) -> re.Pattern[str] | None:
    if not forms:
        return None
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile(f"{before}(?:{'|'.join(map(re.escape, longest_first))}){behind}", re.IGNORECASE)
