"""Secure connections: which certificates are trusted, and what failed before there was a connection. No torch."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from valor_gpu.judge.protocol import JudgeError, Status

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Environment variables with the authorities to trust in place of the system's, the first that is set."""
_UNKNOWN = {
    18: "is self-signed",
    19: "is of an authority that is not trusted here",
    20: "is of an authority that is not trusted here",
    21: "is of an authority that is not trusted here",
}
"""Codes of OpenSSL for certificates that lead to no authority that is trusted."""
_ANOTHER_HOST = (62, 64)
_TIMES = {9: "is not valid yet", 10: "has expired"}
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")
_EOF = ("ConnectionResetError", "BrokenPipeError", "SSLEOFError", "SSLZeroReturnError", "EndOfStream")


class UntrustedServer(BaseException):
    """A connection that no other try makes secure: not an ``Exception``, which the client of ``openai`` tries again.

    Args:
        failure: what is told of it.
    """

    def __init__(self, failure: JudgeError) -> None:
        super().__init__(str(failure))
        self.failure = failure


def trusted(is_plain: bool) -> ssl.SSLContext | bool:
    """Returns what a client is to verify servers by; True for the authorities of the system.

    Args:
        is_plain: whether it shall speak with no server by TLS, which saves the 25 ms of reading certificates.

    Raises:
        JudgeError: ``bad_request``, since the variable names no certificates.
    """
    if is_plain:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    name = next((each for each in VARIABLES if os.environ.get(each)), None)
    if name is None:
        return True
    place = os.environ[name]
    try:
        file, folder = (place, None) if name == VARIABLES[0] else (None, place)
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        reason = "no certificate in PEM is in it" if isinstance(error, ssl.SSLError) else error.strerror
        cause = f"the environment variable {name} must name a file of certificates but {place!r:.200}: {reason}"
    raise JudgeError(Status.BAD_REQUEST, cause, max_retries=0, shared_cause=cause)


def connection_failure(error: BaseException, address: str) -> JudgeError:
    """What it means that a request got no response; of an exception's text nothing is shown: it may hold what was sent.

    Certificates and servers without TLS stay as they are: their failures are not worth a retry.

    Args:
        error: of the HTTP client.
        address: that was asked.

    Example:
        >>> str(connection_failure(TimeoutError(), "http://127.0.0.1:9/v1"))
        'no connection: TimeoutError'
        >>> wrong = ssl.SSLError()
        >>> wrong.reason = "WRONG_VERSION_NUMBER"
        >>> str(connection_failure(wrong, "https://127.0.0.1:9/v1"))
        'no secure connection to 127.0.0.1:9: it does not speak TLS: does the address begin with http://?'
    """
    place, is_secure = urlsplit(address), urlsplit(address).scheme == "https"
    host = place.netloc.rpartition("@")[2]
    names = [type(each).__name__ for each in _chain(error)]
    found = next((each for each in _chain(error) if isinstance(each, ssl.SSLError)), None)
    if isinstance(found, ssl.SSLError) and type(found).__name__ not in _EOF:
        return JudgeError(Status.CONNECTION_ERROR, f"no secure connection to {host}: {_reason(found)}", max_retries=0)
    if is_secure and names[0] == "ConnectError" and set(names) & set(_EOF):
        return JudgeError(
            Status.CONNECTION_ERROR,
            f"no secure connection to {host}: it closed the connection before TLS was agreed on",
        )
    return JudgeError(Status.CONNECTION_ERROR, f"no connection: {names[0]}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what led to it, each once."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and not any(following is each for each in seen):
        seen.append(following)
        yield following
        following = following.__cause__ or following.__context__


def _reason(error: ssl.SSLError) -> str:
    """What is wrong and what helps."""
    if isinstance(error, ssl.SSLCertVerificationError):
        code = getattr(error, "verify_code", 0)  # checks of Python itself give none
        if code in _UNKNOWN:
            return (
                f"its certificate {_UNKNOWN[code]}: if you trust it, name a PEM file of all authorities that you"
                f" trust, with this one, in the environment variable {VARIABLES[0]}"
            )
        if code in _ANOTHER_HOST:
            return "its certificate is that of another host: is the address right?"
        if code in _TIMES:
            return f"its certificate {_TIMES[code]}: let its operator renew it, or set the clock of this machine right"
        return f"its certificate is rejected: {getattr(error, 'verify_message', 'it cannot be verified')}"
    if error.reason in _NO_TLS:
        return "it does not speak TLS: does the address begin with http://?"
    return f"TLS failed: {(error.reason or type(error).__name__).lower().replace('_', ' ')}"
