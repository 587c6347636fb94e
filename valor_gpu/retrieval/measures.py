"""Names of measures of a ranking, such as ``nDCG@10``, as ir-measures writes them. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from valor_gpu._frozen import frozen
from valor_gpu.checks import near_names
from valor_gpu.errors import InputError

_KINDS = {
    "P": ("precision", ("rel",)),
    "R": ("recall", ("rel",)),
    "AP": ("average_precision", ("rel",)),
    "RR": ("reciprocal_rank", ("rel",)),
    "Success": ("success", ("rel",)),
    "Rprec": ("r_precision", ("rel",)),
    "nDCG": ("ndcg", ("dcg",)),
    "DCG": ("dcg", ()),
    "ERR": ("err", ("max_rel",)),
    "RBP": ("rbp", ("rel", "p")),
    "Bpref": ("bpref", ("rel",)),
    "Judged": ("judged", ()),
    "Holes": ("holes", ()),
    "FallOut": ("fall_out", ("rel",)),
    "AUC": ("auroc", ("rel",)),
}
_OTHER_NAMES = {"MAP": "AP", "MRR": "RR", "Recall": "R", "Precision": "P", "HitRate": "Success", "NDCG": "nDCG"}
_WITHOUT_CUTOFF = ("Rprec", "Bpref")
_NEEDS_CUTOFF = ("P", "R", "Success", "Judged", "Holes", "FallOut")
_FORM = re.compile(r"([A-Za-z_]+)(?:\(([^()]*)\))?(?:@(\d+))?")

DEFAULT_PERSISTENCE = 0.8
"""The ``p`` of ``RBP`` where its name has none."""


@frozen
class Measure:
    """A measure of the ranked documents of a query.

    Attributes:
        name: as it is written, such as ``P(rel=2)@5``; two spellings of one measure have one name.
        kind: what is computed, such as ``precision``.
        cutoff: how many documents from the top count; 0: all.
        rel: the least grade of a relevant document, where documents are relevant or not.
        parameter: of ``RBP`` the persistence, of ``ERR`` the largest grade (0: that of the data).
        exponential: whether a grade g gains ``2^g - 1``.
    """

    name: str
    kind: str
    cutoff: int = 0
    rel: int = 1
    parameter: float = 0.0
    exponential: bool = False


def parse_measure(text: str) -> Measure:
    """Returns the measure of a name.

    Args:
        text: ``P``, ``R``, ``Success``, ``Judged``, ``Holes`` or ``FallOut`` with ``@k``; ``AP``, ``RR``, ``nDCG``,
            ``DCG``, ``ERR``, ``RBP`` or ``AUC`` with or without it; ``Rprec`` or ``Bpref``. ``(rel=2)`` behind the word
            is the least grade of a relevant document, ``RBP(p=0.8)`` the persistence, ``ERR(max_rel=4)`` the largest
            grade, ``nDCG(dcg='exp-log2')`` the gain ``2^g - 1``. ``MAP``, ``MRR``, ``NDCG``, ``Precision``, ``Recall``
            and ``HitRate`` are taken too.

    Raises:
        InputError: there is no such measure, or an argument is not one of it or out of range.

    Example:
        >>> parse_measure("P(rel=2)@5").cutoff, parse_measure("MRR").name
        (5, 'RR')
    """
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        raise InputError(f"measure must look like nDCG@10, AP or RBP(p=0.8) but got {text!r}")
    word = _OTHER_NAMES.get(found[1], found[1])
    if word not in _KINDS:
        near = near_names(word, _KINDS)
        raise InputError(f"measure must be one of {', '.join(_KINDS)}, with @k or without, but got {text!r}{near}")
    cutoff = _cutoff(word, found[3], text)
    return _measure(word, _arguments(word, found[2] or "", text), cutoff)


def parse_measures(names: Sequence[str]) -> list[Measure]:
    """Returns the measures of names, each once, in their order; errors as in :func:`parse_measure`.

    Example:
        >>> [measure.name for measure in parse_measures(["AP", "MAP", "P@5"])]
        ['AP', 'P@5']
    """
    return list({measure.name: measure for measure in map(parse_measure, names)}.values())


def _cutoff(word: str, given: str | None, text: str) -> int:
    if given is None and word in _NEEDS_CUTOFF:
        raise InputError(f"measure {text!r} must have a cutoff, such as {word}@10")
    if given is not None and (word in _WITHOUT_CUTOFF or int(given) == 0):
        need = "no cutoff" if word in _WITHOUT_CUTOFF else "a cutoff of at least 1"
        raise InputError(f"measure {text!r} must have {need}")
    return int(given or 0)


def _arguments(word: str, given: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in given.split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or name in found or name not in _KINDS[word][1]:
            taken = " and ".join(_KINDS[word][1]) or "no arguments"
            raise InputError(f"measure {text!r} must have arguments of {word}, which takes {taken}, but has {part!r}")
        found[name] = value.strip("'\"")
    return found


def _measure(word: str, arguments: dict[str, str], cutoff: int) -> Measure:
    shown, parameter, rel = [], 0.0, 1
    exponential = arguments.get("dcg", "log2")
    if exponential not in ("log2", "exp-log2"):
        raise InputError(f"dcg of {word} must be log2 or exp-log2 but got {exponential!r}")
    if exponential == "exp-log2":
        shown.append("dcg='exp-log2'")
    if "rel" in arguments and (rel := _whole(word, "rel", arguments["rel"])) != 1:
        shown.append(f"rel={rel}")
    if word == "RBP":
        parameter = _persistence(arguments.get("p", str(DEFAULT_PERSISTENCE)))
        shown.append(f"p={parameter:g}")
    if "max_rel" in arguments:
        parameter = _whole(word, "max_rel", arguments["max_rel"])
        shown.append(f"max_rel={parameter}")
    name = word + (f"({','.join(shown)})" if shown else "") + (f"@{cutoff}" if cutoff else "")
    return Measure(name, _KINDS[word][0], cutoff, rel, float(parameter), exponential == "exp-log2")


def _whole(word: str, name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InputError(f"{name} of {word} must be a whole number of at least 1 but got {value!r}")
    return int(value)


def _persistence(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < 1:
        raise InputError(f"p of RBP must be a number above 0 and below 1 but got {value!r}")
    return number
