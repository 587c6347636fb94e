"""Ids that are texts: outside the texts themselves, inside int64 codes. No torch.

The code of a text is its place among all texts of its field in ascending order of code points: the order of
``numpy.unique``, in which pycocotools takes images and categories, and which decides between equal scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen

Codes = NDArray[np.int64]
Id = int | str


@frozen
class TextIds:
    """The texts that the codes 0 .. N - 1 of a field stand for.

    Attributes:
        texts: ascending, each once.

    Example:
        >>> ids = TextIds.of(["img_2", "img_10", "img_2"])
        >>> ids.texts, ids.codes(["img_2", "img_3"]).tolist()
        (('img_10', 'img_2'), [1, -1])
    """

    texts: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str]) -> TextIds:
        """Those of ``values``, each once."""
        return cls(tuple(sorted({plain_text(value) for value in values})))

    def codes(self, values: Sequence[Any]) -> Codes:
        """int64 ``[n]``: the code of each value, -1 where it is none of the texts."""
        places = self._places
        return np.fromiter((places.get(value, -1) for value in values), np.int64, len(values))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.texts)}


class IdTexts(NamedTuple):
    """What codes stand for, None where ids are integers.

    Attributes:
        image_id: of images.
        category_id: of categories.
    """

    image_id: TextIds | None = None
    category_id: TextIds | None = None


NO_TEXTS = IdTexts()
"""Of ids that are all integers."""


def plain_text(value: str) -> str:
    """The text alone of a text that may be an instance of a subclass, such as numpy's."""
    return value if type(value) is str else str.__str__(value)


def recode(codes: Codes, old: TextIds | None, new: TextIds | None) -> Codes:
    """Codes of the texts of ``old`` as those of ``new``, which has them all; integers stay."""
    if old is None or new is None or old is new:
        return codes
    return new.codes(old.texts).take(codes)


def union(parts: Iterable[TextIds | None]) -> TextIds | None:
    """The texts of all parts; a part that has them all as it is, None where no part has any.

    Example:
        >>> union([None, TextIds.of("b"), TextIds.of("ab")]).texts
        ('a', 'b')
    """
    found = list(dict.fromkeys(part for part in parts if part is not None))
    if not found:
        return None
    texts = set().union(*(part.texts for part in found))
    return next((part for part in found if len(part.texts) == len(texts)), None) or TextIds.of(texts)


def shown_ids(codes: Codes, texts: TextIds | None) -> list[Any]:
    """Ids as their file has them."""
    return codes.tolist() if texts is None else [texts.texts[code] for code in codes.tolist()]


def codes_of(ids: Sequence[Any], texts: TextIds | None) -> Codes:
    """int64 ``[n]``: the code of each id; -1 of a text that the field has not."""
    return np.asarray(ids, np.int64).reshape(-1) if texts is None else texts.codes(ids)
