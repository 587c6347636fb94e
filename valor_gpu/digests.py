"""Hashes of the data that numbers were made of, of texts as they come, and of JSON. Imports neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

COUNTS_ALONE = "the state keeps counts alone"
"""Why a metric cannot tell which data it saw."""


class DataHashes(NamedTuple):
    """Hashes of what numbers were made of.

    Attributes:
        hashed: ``annotations``, ``images``, ``rows``, ``texts`` or ``files``; None: nothing. Only hashes of one kind
            can be compared.
        ground_truth: of what is true, None: unknown.
        predictions: of the predictions, each with what it stands beside, None: unknown.
        reasons: why one is None, by its name.
    """

    hashed: str | None
    ground_truth: str | None
    predictions: str | None
    reasons: Mapping[str, str] = {}

    @classmethod
    def none(cls, reason: str) -> DataHashes:
        """Returns the hashes of data that nobody knows."""
        return cls(None, None, None, dict.fromkeys(("ground_truth", "predictions"), reason))


class TextRows:
    """The hash of rows of texts as they come, free of their order.

    Example:
        >>> rows = TextRows()
        >>> rows.add("a cat", ["the cat"])
        >>> rows.hashes().hashed, len(rows.hashes().predictions)
        ('texts', 64)
    """

    def __init__(self) -> None:
        self._sums = [0, 0]
        self._rows = 0

    def add(self, prediction: Any, truth: Any) -> None:
        """Adds a row; anything of JSON."""
        import hashlib  # here, as below, since most programs that load this hash nothing

        for side, content in enumerate((truth, (truth, prediction))):
            digest = hashlib.blake2b(repr(content).encode(errors="surrogatepass"), digest_size=16).digest()
            self._sums[side] += int.from_bytes(digest, "little")
        self._rows += 1

    def hashes(self) -> DataHashes:
        """Returns the hashes of what came so far."""
        import hashlib

        parts = [repr(("texts", side, self._rows, total % 2**128)) for side, total in enumerate(self._sums)]
        truths, predictions = (hashlib.sha256(part.encode()).hexdigest() for part in parts)
        return DataHashes("texts", truths, predictions)


def content_hash(content: Any) -> str:
    """Returns 16 hexadecimal digits of the hash of JSON content, whatever the order of its keys.

    Example:
        >>> content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
        True
    """
    import hashlib
    import json

    text = json.dumps(content, sort_keys=True, ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
