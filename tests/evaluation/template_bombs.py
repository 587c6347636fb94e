"""Templates that would fill memory or never end, each by a way of its own."""

from __future__ import annotations

WIDE = "\U000e0001"
"""A character of four bytes, which repr writes with ten."""
_TWICE = "{% set ns = namespace(a=A, b=B) %}{% for i in range(60) %}{% set ns.a = X %}{% endfor %}"


def _twice(begin: str, step: str) -> str:
    return _TWICE.replace("A", begin).replace("B", "''").replace("X", step)


def _blocks() -> str:
    twice = "{% if self.b#() %}{% endif %}" * 2
    rest = ("{% block b" + str(n) + " %}" + twice.replace("#", str(n - 1)) + "{% endblock %}" for n in range(1, 40))
    return "{% block b0 %}{% endblock %}" + "".join(rest)


def _kept(value: str, n: int) -> str:
    """Many variables, each with a copy of its own."""
    return "".join("{% set a" + str(each) + " = " + value + " %}" for each in range(n))


FORMATS = {
    "format width": "{{ ('{:>1000000000}'.format(1))|length }}",
    "format_map width": "{{ ('{a:>1000000000}'.format_map({'a': 1}))|length }}",
    "format by subscript": "{{ ('{:>1000000000}'['format'](1))|length }}",
    "format by map": "{% set f = ['{:>1000000000}']|map(attribute='format')|first %}{{ f(1)|length }}",
    "format width in a field": "{{ '{:{}}'.format(1, 10**9)|length }}",
    "format width twice in fields": "{{ '{:{}{}}'.format(1, '>', 2000000000)|length }}",
    "format many digits": "{{ '{:>" + "9" * 5000 + "}'.format(1) }}",
    "format digits of another script": "{{ '{:>\u0661" + "\u0660" * 9 + "}'.format(1)|length }}",
    "format zeros": "{{ '{:01000000000}'.format(1)|length }}",
    "format precision": "{{ '{:.1000000000f}'.format(1.5)|length }}",
    "format precision e": "{{ '{:.1000000000e}'.format(1.5)|length }}",
    "format precision percent": "{{ '{:.1000000000%}'.format(1.5)|length }}",
    "format many fields": "{{ ('{:>100000}' * 100000).format(*range(100000)) }}",
    "format the same field": "{{ ('{0}' * 1000000).format(big)|length }}",
    "format doubled braces": "{{ ('ab{{' * 4000000).format()|length }}",
    "format repr": "{{ '{!r}'.format(wide * 1000)|length }}",
    "format ascii": "{{ ('{!a}' * 100).format(*([wide] * 100))|length }}",
    "format of markup": "{{ ('{:>1000000000}'|e).format(1)|length }}",
    "format escapes": "{{ (('{0}' * 20)|e).format('&' * 1000000)|length }}",
    "format in a loop": "{% for i in range(200000) %}{% set z = '{:>1000000}'.format(1) %}{% endfor %}",
    "percent": "{{ '%1000000000d' % 1 }}",
    "odd": "{% if '%1000000000d' is odd %}{% endif %}",
    "even": "{% if '%1000000000d' is even %}{% endif %}",
    "divisibleby": "{% if '%1000000000d' is divisibleby 3 %}{% endif %}",
    "select odd": "{{ ['%1000000000d']|select('odd')|list }}",
}
"""Formats, whose results are as wide as they say."""
REPEATED = {
    "text times": "{{ ('a' * 10**9)|length }}",
    "times text": "{{ (10**9 * 'a')|length }}",
    "list times": "{{ ([1] * 1000000000)|length }}",
    "tuple times": "{{ ((1, 2) * 1000000000)|length }}",
    "plus": _twice("'aaaaaaaaaa'", "ns.a + ns.a"),
    "tilde": _twice("'aaaaaaaaaa'", "ns.a ~ ns.a"),
    "list plus": _twice("[1]", "ns.a + ns.a"),
    "lists": _twice("[1]", "[ns.a, ns.a]"),
    "dicts": _twice("{}", "{'a': ns.a, 'b': ns.a}"),
    "dict of names": _twice("1", "dict(a=ns.a, b=ns.a)"),
    "varargs": "{% set ns = namespace(a=1, b=1) %}{% macro f() %}{% set ns.a = varargs %}{% endmacro %}"
    "{% macro g() %}{% set ns.b = varargs %}{% endmacro %}"
    + "{% set x = f(ns.a, ns.a) %}{% set x = g(ns.b, ns.b) %}" * 60 + "{{ ns.a == ns.b }}",
    "join": "{{ (range(100000)|join('x' * 10000))|length }}",
    "join of a text": "{{ (('a' * 100000)|join('x' * 10000))|length }}",
    "replace": "{{ (('a' * 100000)|replace('a', 'x' * 100000))|length }}",
    "replace nothing": "{{ (('a' * 100000)|replace('', 'x' * 100000))|length }}",
    "replace of constants": "{{ ('" + "y" * 90000 + "'|replace('y', '" + "z" * 90000 + "'))|length }}",
    "replace that keeps copies": _kept("big|replace('yyy', 'zzz')", 3000),
    "slices kept": _kept("big[1:]", 5000),
    "upper kept": _kept("big.upper()", 5000),
    "strip kept": _kept("big.strip('z')", 3500),
    "lists kept": _kept("rows|list", 5000),
    "keys kept": _kept("keys.keys() - []", 3500),
    "tojson": _twice("[1]", "[ns.a, ns.a]|tojson"),
    "tojson of signs": "{{ (['\x01' * 6000000]|tojson)|length }}",
    "repr": "{{ ([wide * 1900]|string)|length }}",
    "to_bytes": "{{ (5).to_bytes(1000000000, 'big')|length }}",
    "autoescape": "{% autoescape true %}{% for i in range(200000) %}{{ '&' * 90 }}{% endfor %}{% endautoescape %}",
    "loop text": "{% for i in range(200000) %}" + "z" * 10_000 + "{% endfor %}",
    "set block": "{% set s %}{% for i in range(200000) %}" + "z" * 10_000 + "{% endfor %}{% endset %}",
    "numbers shown": "{% for i in range(200000) %}" + "{{ 5 + 5 }}" * 50 + "{% endfor %}",
    "own name of the counter": "{{ _valor_count(-10**12) }}{{ count_round(-10**12) }}{{ ('a' * 10**9)|length }}",
    "multiplied numbers": _twice("10 ** 60", "ns.a * ns.a"),
    "power": "{{ 9 ** 9 ** 9 }}",
}  # fmt: skip
"""Values that double, or are kept many times."""
FILTERS = {
    "list of a text": "{{ (wide * 1900)|list|length }}",
    "list of default": "{{ range(100000)|map(attribute='z', default=big)|list|sort|length }}",
    "unique of default": "{{ range(100000)|map(attribute='z', default=big)|unique|list|length }}",
    "min of default": "{{ range(100000)|map(attribute='z', default=big)|map('upper')|min|length }}",
    "split": "{{ ('ab ' * 6000000).split()|length }}",
    "split at a sign": "{{ ('ab,' * 6000000).split(',')|length }}",
    "splitlines": "{{ ('ab\\n' * 6000000).splitlines()|length }}",
    "split of markup": "{{ ('ab ' * 6000000)|e|split|length }}{{ (('ab ' * 6000000)|e).split()|length }}",
    "wordcount": "{{ ('a ' * 9000000)|wordcount }}{{ missing }}",
    "title": "{{ ('ab ' * 6000000)|title|length }}{{ missing }}",
    "striptags": "{{ ('<!---->' * 2500000)|striptags|length }}{{ missing }}",
    "striptags words": "{{ ('ab ' * 6000000)|striptags|length }}{{ missing }}",
    "urlencode": "{{ (wide * 1900)|urlencode|length }}",
    "urlencode pairs": "{{ [('a', wide * 900)]|urlencode|length }}{{ missing }}",
    "escape": "{{ ('&' * 6000000)|e|length }}",
    "fenced": "{{ ('~~ ' * 6000000)|fenced|length }}{{ missing }}",
    "fenced mark": "{{ ('~' * 9000000)|fenced|length }}",
    "round": "{{ 5|round(-1000000000) }}",
    "round up": "{{ 5|round(1000000000, 'ceil') }}",
    "int of digits": "{% set ns = namespace(l=[]) %}{% for i in range(9000) %}"
    "{% set ns.l = ns.l + [('f' * 1000 ~ big)|int(0, 16)] %}{% endfor %}",
    "strip of many": "{{ ('a' * 5000000).strip('b' * 5000000 ~ 'a')|length }}",
    "trim of many": "{{ ('a' * 5000000)|trim('b' * 5000000 ~ 'a')|length }}",
    "reverse of a generator": "{{ (wide * 1900)|select('string')|reverse|list|length }}",
    "length of a loop": "{% for i in (wide * 1900)|select('string') %}{{ loop.length }}{% endfor %}",
    "spread": "{{ dict(*(wide * 1900)) }}",
    "spread to a filter": "{{ 1|default(*(wide * 1900)) }}",
    "lower of a list": "{% if [wide * 1900] is lower %}{% endif %}{{ [wide * 1900]|lower|length }}",
    "center": "{{ x|center(1000000000) }}{{ x.center(1000000000) }}",
    "indent": "{{ x|indent(1000000000, true) }}",
    "wordwrap": "{{ x|wordwrap(1, true, big) }}",
    "format filter": "{{ '%1000000000d'|format(1) }}",
    "batch": "{{ [1]|batch(1000000000, 1)|list }}",
    "slice": "{{ [1]|slice(1000000000, 1)|list }}",
    "pprint": "{{ rows|pprint }}",
    "tojson indent": "{{ rows|tojson(indent=1000000000) }}",
    "filter block": "{% filter replace('a', 'x' * 100000) %}" + "a" * 100000 + "{% endfilter %}",
}
"""Filters and methods."""
ENDLESS = {
    "loops": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "recursive loop": "{% for i in range(100000) recursive %}{{ loop(range(100000)) }}{% endfor %}",
    "macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "macros twice": "{% macro m0() %}{% endmacro %}"
    + "".join("{% macro m" + str(n) + "() %}{% set a = m" + str(n - 1) + "() %}{% set a = m" + str(n - 1)
              + "() %}{% endmacro %}" for n in range(1, 40)) + "{{ m39() }}",
    "blocks twice": _blocks(),
    "select in": "{{ range(200000)|select('in', range(200000)|map('string')|list)|list|length }}",
    "comparisons": "{% set a = ['a'] * 300000 %}{% set b = ['a'] * 300000 %}" + "{% if a == b %}{% endif %}" * 3000,
    "filtered loop": "{% for i in range(200000) if range(200000)|select('gt', 300000)|list %}{% endfor %}",
    "counts": "{% for i in range(200000) %}{% set z = big.count('q') %}{% set z = big.count('q') %}{% endfor %}",
}  # fmt: skip
"""Templates that would take hours."""
COMPILED = {
    "expressions": "{{a}}" * 40_000,
    "subscripts": "{{x[1]}}" * 25_000,
    "list": "{{ [" + "1," * 90_000 + "] }}",
    "filters": "{{ x" + "|e" * 60_000 + " }}",
    "sum": "{{ x" + "~x" * 60_000 + " }}",
}
"""Templates that would fill memory when they are compiled."""
ALL = {**FORMATS, **REPEATED, **FILTERS, **ENDLESS, **COMPILED}
