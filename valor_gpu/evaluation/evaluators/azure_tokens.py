"""Tokens as Azure's evaluators cut texts for BLEU, GLEU and METEOR. No torch.

A text of ASCII alone is cut into Treebank words, sentence by sentence, by NLTK. Any other text is cut as the
international tokenizer of NIST's mteval-v14 does: signs apart, and a cut around every run of other characters than
ASCII ("déjà" is d, é, j, à).
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators._nltk_parts import tokenizer_module

ABBREVIATIONS = (
    "a.d", "a.m", "adm", "al", "apr", "assn", "aug", "ave", "b.c", "blvd", "capt", "cf", "cmdr", "co", "col", "corp",
    "dec", "dept", "dr", "e.g", "est", "etc", "feb", "fig", "ft", "gen", "gov", "hon", "hwy", "i.e", "inc", "jan", "jr",
    "lt", "ltd", "m.d", "maj", "messrs", "mr", "mrs", "ms", "mt", "nov", "oct", "p.m", "ph.d", "prof", "rep", "rev",
    "sen", "sept", "sgt", "sr", "st", "u.k", "u.n", "u.s", "univ", "vs",
)  # fmt: skip
"""Words after which a full stop ends no sentence, where no model of Punkt is named."""

_ENTITIES = {"&quot;": '"', "&apos;": "'", "&#124;": "|", "&#91;": "[", "&#93;": "]"}
_AFTER, _BEFORE, _SYMBOL = re.compile("[psn\n][p\n]"), re.compile("[p\n][psn\n]"), re.compile("[s\n]")

_PURPOSE = "bleu, gleu and meteor by Azure's tokens"


def azure_tokenizer(punkt: str | os.PathLike[str] | None = None) -> Callable[[str], list[str]]:
    """A function from a text to Azure's tokens.

    Args:
        punkt: folder of NLTK's English Punkt model (``punkt_tab/english``), with which sentences end where they do in
            Azure. Without it they end after a full stop, a question or an exclamation mark, but not after
            :data:`ABBREVIATIONS`: that decides whether such a mark inside a text is a token of its own.

    Raises:
        MissingExtraError: NLTK is not installed.
        InputError: no Punkt model in that folder.
    """
    sentences, words = _sentence_splitter(None if punkt is None else str(punkt)), _treebank()

    def tokens(text: str) -> list[str]:
        if not text.isascii():
            return international_tokens(text)
        return [word for sentence in sentences(text) for word in words(sentence)]

    return tokens


@lru_cache(4)
def _sentence_splitter(folder: str | None) -> Callable[[str], list[str]]:
    splitter: Any = tokenizer_module("punkt", _PURPOSE).PunktSentenceTokenizer()
    parameters: Any = splitter._params
    if folder is None:
        parameters.abbrev_types = set(ABBREVIATIONS)
    else:
        _read_punkt(Path(folder), parameters)
    split: Callable[[str], list[str]] = splitter.tokenize
    return split


def _read_punkt(folder: Path, parameters: Any) -> None:
    """Reads the four files of a Punkt model, of which each line is a word or fields between tabs."""
    names = ("abbrev_types.txt", "sent_starters.txt", "collocations.tab", "ortho_context.tab")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InputError(f"punkt must be a folder with NLTK's Punkt model but {folder} lacks {missing[0]}")
    lines = [(folder / name).read_text("utf-8").splitlines() for name in names]
    parameters.abbrev_types, parameters.sent_starters = set(lines[0]), set(lines[1])
    parameters.collocations = {tuple(line.split("\t")) for line in lines[2]}
    parameters.ortho_context.update((word, int(bits)) for word, bits in (line.split("\t") for line in lines[3]))


@lru_cache(1)
def _treebank() -> Callable[[str], list[str]]:
    words: Callable[[str], list[str]] = tokenizer_module("destructive", _PURPOSE).NLTKWordTokenizer().tokenize
    return words


class _Kinds(dict[int, str]):
    """Code points to kinds of characters: p a punctuation mark, s a symbol, n another that is no digit, o the others.

    Written characters with names by range (Chinese characters, Korean syllables), which the lists that NLTK reads leave
    out, are of the others; so are white space, control characters, and all beyond 16 bits, such as most emoji. A line
    break is each of p, s and n there. Characters that came to Unicode after those lists may be cut otherwise.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        group = unicodedata.category(character)[0]
        kind = {"P": "p", "S": "s", "L": "n", "M": "n"}.get(group, "o")
        by_range = unicodedata.name(character, "").startswith(("CJK UNIFIED", "HANGUL SYLLABLE"))
        if code > 0xFFFF or by_range:
            kind = "o"
        self[code] = "\n" if character == "\n" else kind
        return self[code]


_KINDS = _Kinds()


def international_tokens(text: str) -> list[str]:
    """Tokens of NIST's international rules.

    Example:
        >>> international_tokens("20°F, naïve")
        ['20', '°', 'F', ',', 'na', 'ï', 've']
    """
    from xml.sax.saxutils import unescape  # loads urllib.request, 15 ms that other metrics need not

    text = unescape(text.replace("<skipped>", "").replace("\u2028", " "), _ENTITIES)
    text = re.sub("([\x00-\x7f]+)", r" \1 ", text)
    text = _spaced(text, _AFTER, lambda pair: f"{pair[0]} {pair[1]} ")
    text = _spaced(text, _BEFORE, lambda pair: f" {pair[0]} {pair[1]}")
    return _spaced(text, _SYMBOL, lambda sign: f" {sign} ").split()


def _spaced(text: str, pattern: re.Pattern[str], put: Callable[[str], str]) -> str:
    """The text with ``put`` applied to the places where the kinds of its characters match."""
    parts, last = [], 0
    for match in pattern.finditer(text.translate(_KINDS)):
        parts += [text[last : match.start()], put(text[match.start() : match.end()])]
        last = match.end()
    return "".join([*parts, text[last:]])
