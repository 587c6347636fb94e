"""Numbers as pages show them: one rule for each kind, so that rounding is decided once.

A number that does not exist is a middle dot, never blank, 0 or ``nan``.
"""

from __future__ import annotations

import math

MINUS = "\u2212"
NOTHING = "·"


def number(value: float | None, decimals: int = 2) -> str:
    """A number with its decimals, commas at thousands and a true minus.

    Example:
        >>> number(4.137), number(-0.001), number(12345.6, 1), number(None)
        ('4.14', '0.00', '12,345.6', '·')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:,.{decimals}f}"
    if not float(text.replace(",", "")):
        return text.lstrip("-")
    return text.replace("-", MINUS)


def count(value: int | None) -> str:
    """A whole number with commas at thousands.

    Example:
        >>> count(1200)
        '1,200'
    """
    return NOTHING if value is None else f"{value:,}"


def rows(value: int | None) -> str:
    """How many rows.

    Example:
        >>> rows(1), rows(1200)
        ('1 row', '1,200 rows')
    """
    return f"{count(value)} row{'' if value == 1 else 's'}"


def decimals_of(low: float | None, high: float | None) -> int:
    """Decimals of means on a scale: three up to a width of 2, as of 0 to 1, else two.

    Example:
        >>> decimals_of(0, 1), decimals_of(1, 5), decimals_of(0, None)
        (3, 2, 2)
    """
    return 3 if low is not None and high is not None and high - low <= 2 else 2


def span(low: float | None, high: float | None, decimals: int = 2) -> str:
    """An interval in the decimals of its estimate.

    Example:
        >>> span(4.08, 4.2149)
        '4.08 to 4.21'
    """
    return f"{number(low, decimals)} to {number(high, decimals)}"


def percent(value: float | None, sign: bool = True) -> str:
    """A rate in percent with one decimal.

    Example:
        >>> percent(0.00834)
        '0.8%'
    """
    shown = number(None if value is None else 100 * value, 1)
    return shown if shown == NOTHING or not sign else f"{shown}%"


def percent_span(low: float | None, high: float | None) -> str:
    """An interval of a rate.

    Example:
        >>> percent_span(0.005, 0.015)
        '0.5 to 1.5%'
    """
    return f"{percent(low, sign=False)} to {percent(high)}"


def difference(value: float | None, decimals: int = 2) -> str:
    """A difference, always with its sign, and 0 without one.

    Example:
        >>> difference(0.081), difference(-0.1), difference(-0.001)
        ('+0.08', '−0.10', '0.00')
    """
    shown = number(value, decimals)
    return shown if shown[0] in (MINUS, NOTHING) or not any("1" <= sign <= "9" for sign in shown) else f"+{shown}"


def p_value(value: float | None) -> str:
    """A p-value: two significant digits below 0.1, else two decimals.

    Example:
        >>> p_value(0.0088), p_value(0.43), p_value(0.0001)
        ('0.0088', '0.43', '< 0.001')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if value < 0.001:
        return "< 0.001"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.{1 - math.floor(math.log10(value))}f}"


def cost(value: float | None, currency: str = "") -> str:
    """A cost with its currency, in words where it is not known.

    Example:
        >>> cost(1.318, "USD"), cost(0.0021, "USD"), cost(0.0), cost(None)
        ('1.32 USD', 'less than 0.01 USD', '0.00', 'cost unknown')
    """
    if value is None or not math.isfinite(value):
        return "cost unknown"
    text = "less than 0.01" if 0.0 < value < 0.005 else number(value, 2)
    return f"{text} {currency}".rstrip()


def amount(value: float | None) -> str:
    """A large count in words: tokens.

    Example:
        >>> amount(11_240_000), amount(12_345), amount(950)
        ('11.2 M', '12.3 k', '950')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f} {unit}"
    return f"{value:,.0f}"


def duration(seconds: float | None, rough: bool = False) -> str:
    """A time in two units at most.

    Args:
        seconds: of the time.
        rough: whether it is an estimate: full units of 5 seconds below a minute, of minutes below 90, of 5 minutes
            below a day, of hours from then on.

    Example:
        >>> duration(1180), duration(3.25), duration(7300)
        ('19 min 40 s', '3.2 s', '2 h 1 min')
        >>> duration(1180, True), duration(3.25, True), duration(7300, True), duration(200_000, True)
        ('20 min', '5 s', '2 h 0 min', '2 d 8 h')
    """
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if rough:
        return _rough(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _rough(seconds: float) -> str:
    if seconds < 57.5:
        return f"{max(5 * round(seconds / 5), 5)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    fives = round(seconds / 300)
    if fives < 288:
        return f"{fives // 12} h {5 * (fives % 12)} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"
