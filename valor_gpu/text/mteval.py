"""Words of texts as sacreBLEU cuts them before BLEU. No torch."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.text.tokens import TOKENIZERS, Tokenizer

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SIGNS = re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])")
_AFTER = re.compile(r"([^0-9])([.,])")
_BEFORE = re.compile(r"([.,])([^0-9])")
_DASH = re.compile(r"([0-9])(-)")


def tokenize_13a(text: str) -> list[str]:
    """Words as NIST's mteval-v13a cuts them: signs apart, points and commas too unless between digits."""
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for name, sign in _ENTITIES:
        text = text.replace(name, sign)
    words: list[str] = []
    for word in text.split():  # no rule looks beyond white space, and most words have no sign or come again
        if word.isalnum():
            words.append(word)
        else:
            words += _cut_once(word) if len(word) <= _LONGEST_KEPT else _cut(word)
    return words


def _cut(word: str) -> tuple[str, ...]:
    """The words of a text without white space."""
    return tuple(split_signs(f" {word} ").split())


def split_signs(text: str, possessive: bool = False) -> str:
    """Text with blanks around signs; ``possessive``: also before an 's that ends a word."""
    text = _SIGNS.sub(r" \1 ", text)
    text = text.replace("'s ", " 's ") if possessive else text
    text = _BEFORE.sub(r" \1 \2", _AFTER.sub(r"\1 \2 ", text))
    return _DASH.sub(r"\1 \2 ", text)


_LONGEST_KEPT = 32  # characters
_cut_once = lru_cache(1 << 16)(_cut)


@lru_cache(1)
def _international() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of mteval-v14 and what stands in their place, of all punctuation (P), numbers (N) and symbols (S)."""
    parts: dict[str, list[str]] = {"P": [], "N": [], "S": []}
    for code in range(sys.maxunicode + 1):
        if (kind := unicodedata.category(chr(code))[0]) in parts:
            parts[kind].append(re.escape(chr(code)))
    signs, numbers, symbols = ("".join(parts[kind]) for kind in "PNS")
    return (
        (re.compile(f"([^{numbers}])([{signs}])"), r"\1 \2 "),
        (re.compile(f"([{signs}])([^{numbers}])"), r" \1 \2"),
        (re.compile(f"([{symbols}])"), r" \1 "),
    )


def tokenize_intl(text: str) -> list[str]:
    """Words as mteval-v14 cuts them in any language: punctuation apart unless between digits, and symbols."""
    text = text.rstrip()
    for pattern, instead in _international():
        text = pattern.sub(instead, text)
    return text.split()


# sacreBLEU's list; two of its ranges are written with four digits too few and so begin at U+2001 and U+2F81
_CHINESE = re.compile(
    "[\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef\u3200-\u4db5\u4e00-\u9fbb"
    "\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef]"
)


def tokenize_zh(text: str) -> list[str]:
    """Words of Chinese texts: each Chinese character and sign, and what ``13a`` makes of the rest."""
    return split_signs(_CHINESE.sub(r" \g<0> ", text.strip())).split()


_BY_NAME: dict[str, str | Tokenizer] = {
    "13a": tokenize_13a, "intl": tokenize_intl, "zh": tokenize_zh, "char": "nonspace", "none": "whitespace"
}  # fmt: skip
CORPUS_TOKENIZERS = (*_BY_NAME, *TOKENIZERS)
_WITH_MODEL = ("ja-mecab", "ko-mecab", "spm", "flores101", "flores200")


def corpus_tokenizer(name: str, argument: str = "tokenizer") -> str | Tokenizer:
    """The tokenizer of a name of :data:`CORPUS_TOKENIZERS`.

    Args:
        name: of the tokenizer.
        argument: what the caller calls it.

    Raises:
        InputError: there is none of the name, or it needs a model that valor_gpu does not have.
    """
    if name in _WITH_MODEL:
        raise InputError(f"{argument} must be one that needs no model but got {name!r}: split the texts with that model"
                         " into words with blanks between them and give 'none'")  # fmt: skip
    check_choice(argument, name, CORPUS_TOKENIZERS)
    return _BY_NAME.get(name, name)
