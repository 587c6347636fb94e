"""Addresses as people paste them: of a request at Azure OpenAI, or at a server of OpenAI's interface. No torch."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from valor_gpu.errors import InputError

CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"
"""How the address of a request ends, by what it asks for."""
API_VERSION = "2024-10-21"
"""Of Azure's interface where none is named: the oldest one out of preview that knows JSON schemas."""
_OPERATIONS = (CHAT, EMBEDDINGS, "/completions", "/responses")
_OF_AZURE = re.compile(
    r"(?P<before>.*?)/openai(?:/deployments/(?P<deployment>[^/]+)(?P<operation>/.*)?|(?P<v1>/v1)(?P<v1_operation>/.*)?"
    r"|(?P<other>/.*)?)",
    re.DOTALL,
)  # fmt: skip
_V1_VERSIONS = ("v1", "latest", "preview")


@dataclass(frozen=True)
class AzureAddress:
    """Where a deployment of Azure OpenAI is.

    Attributes:
        endpoint: of the resource, or of its newer interface, which ends in ``/openai/v1``.
        deployment: its name.
        version: of the interface; None at ``/openai/v1``, which needs none.
    """

    endpoint: str
    deployment: str
    version: str | None

    @property
    def is_v1(self) -> bool:
        """Whether it is the newer interface, which is OpenAI's own."""
        return self.endpoint.endswith("/openai/v1")


def azure_address(
    endpoint: str | None, deployment: str | None, version: str | None, operation: str = CHAT, name: str = "endpoint"
) -> AzureAddress:
    """Returns where a deployment is, of what is said in parts, in one address that was pasted, or by the environment.

    Args:
        endpoint: ``https://NAME.openai.azure.com``; the same with ``/openai/v1``; or the address of a request,
            ``.../openai/deployments/NAME/chat/completions?api-version=DATE``. None for the environment variable
            AZURE_OPENAI_ENDPOINT.
        deployment: None where the address has it.
        version: None for that of the address, else of the variable OPENAI_API_VERSION, else ``API_VERSION``.
        operation: ``CHAT`` or ``EMBEDDINGS``: what is asked for.
        name: of the address, for messages.

    Raises:
        InputError: no address, one of something else, or one that says something else than the other arguments.

    Example:
        >>> azure_address("https://a.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2025-01-01",
        ...               None, None)
        AzureAddress(endpoint='https://a.openai.azure.com', deployment='gpt', version='2025-01-01')
    """
    address = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
    if not address:
        raise InputError(f"{name} must be an address but neither it nor AZURE_OPENAI_ENDPOINT is set")
    base, found, said, is_v1 = _parts(name, address, operation)
    deployment = _same(name, "deployment", found, deployment)
    if not deployment:
        raise InputError(f"deployment must be a name but neither it nor {name} says one")
    version = _same(name, "api_version", said, version)
    if not is_v1:
        return AzureAddress(base, deployment, version or os.environ.get("OPENAI_API_VERSION") or API_VERSION)
    if version not in (None, *_V1_VERSIONS):
        raise InputError(
            f"api_version must be left out where {name} ends in /openai/v1, or be one of {', '.join(_V1_VERSIONS)}, but"
            f" is {version!r}"
        )
    return AzureAddress(base, deployment, version)


def _same(name: str, what: str, found: str | None, given: str | None) -> str | None:
    if found and given and found != given:
        raise InputError(f"{name} must be of the {what} {given!r} but is of {found!r}: leave one of them out")
    return given or found


def _parts(name: str, address: str, operation: str) -> tuple[str, str | None, str | None, bool]:
    """The address of the resource, and deployment, version and kind of interface as far as an address says them."""
    head, version = _without_version(name, address)
    base = check_address(name, head)
    if "/api/projects/" in base and "/openai" not in base:
        raise InputError(f"{name} must be of a resource but is of a project: it ends before /api/projects")
    path = urlsplit(base).path
    match = _OF_AZURE.fullmatch(path)
    if match is None and path.endswith(_OPERATIONS):
        raise InputError(
            f"{name} must be of a resource, or have /openai/deployments/NAME or /openai/v1 before {operation}, but its"
            f" path is {path!r:.100}"
        )
    if match is None:
        return base, None, version, False
    asked = match["operation"] or match["v1_operation"] or match["other"]
    if asked and asked != operation:
        raise InputError(f"{name} must be of a resource, or end in {operation}, but ends in {asked!r:.100}")
    kept = base.removesuffix(path) + match["before"]
    deployment = match["deployment"] and unquote(match["deployment"])
    return kept + ("/openai/v1" if match["v1"] else ""), deployment, version, bool(match["v1"])


def _without_version(name: str, address: str) -> tuple[str, str | None]:
    """An address without the query ``api-version=...``, the only one that holds no secret, and that version."""
    head, mark, query = str(address).partition("?")
    if not mark:
        return address, None
    pairs = parse_qsl(query, keep_blank_values=True)
    if [key for key, _ in pairs] != ["api-version"] or not re.fullmatch(r"[A-Za-z0-9.-]+", pairs[0][1]):
        check_address(name, address)  # raises, and shows no query
    return head, pairs[0][1]


def openai_address(name: str, address: str, operation: str = CHAT) -> str:
    """Returns the address that a client of OpenAI's interface takes, also of the address of a whole request.

    Args:
        name: of the address, for messages.
        address: up to ``/v1``, or with the operation behind it.
        operation: ``CHAT`` or ``EMBEDDINGS``: what is asked for.

    Raises:
        InputError: no such address, or one of another operation, or of a deployment of Azure.

    Example:
        >>> openai_address("base_url", "http://127.0.0.1:8000/v1/chat/completions")
        'http://127.0.0.1:8000/v1'
    """
    if is_of_deployment(address):
        raise InputError(
            f"{name} must be of OpenAI's interface but is of a deployment of Azure: give it as azure_endpoint, or as"
            " endpoint of AzureOpenAIJudge"
        )
    base = check_address(name, address)
    ending = next((each for each in _OPERATIONS if urlsplit(base).path.endswith(each)), None)
    if ending not in (None, operation):
        raise InputError(f"{name} must end before the operation, often in /v1, or in {operation}, but ends in {ending}")
    return base.removesuffix(operation).rstrip("/")


def is_of_deployment(address: object) -> bool:
    """Returns True for an address of a deployment of Azure OpenAI.

    Example:
        >>> is_of_deployment("https://a.openai.azure.com/openai/deployments/gpt"), is_of_deployment("https://a/v1")
        (True, False)
    """
    return isinstance(address, str) and "/openai/deployments/" in address.partition("?")[0]


def named_deployment(address: object) -> str:
    """Returns the deployment that an address of Azure OpenAI names; an empty text where it names none.

    Example:
        >>> named_deployment("https://a.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=1")
        'gpt'
    """
    if not is_of_deployment(address):
        return ""
    return unquote(str(address).partition("?")[0].partition("/openai/deployments/")[2].partition("/")[0])


def check_address(name: str, address: str) -> str:
    """Returns an address without slashes at its end. What could be a secret in it is rejected and not shown.

    Raises:
        InputError: no address of HTTP, or one with a user name, a password, a query or a fragment.

    Example:
        >>> check_address("base_url", "https://host/v1/")
        'https://host/v1'
    """
    shown = repr(re.split(r"[?#]", str(address).rpartition("@")[2])[0])
    parts = _split(address)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{name} must be an address that begins with http:// or https:// but got {shown}")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"{name} must hold no user name or password; keys belong into an environment variable")
    if "?" in address or "#" in address:
        raise InputError(f"{name} must hold no query or fragment but has one after {shown}")
    return address.rstrip("/")


def _split(address: object) -> SplitResult | None:
    if not isinstance(address, str) or re.search(r"[\x00-\x20\x7f\ud800-\udfff\\]", address):
        return None
    try:
        parts = urlsplit(address)
        return parts if parts.port is None or parts.port else None
    except ValueError:  # brackets that are not closed, ports that are no numbers
        return None
