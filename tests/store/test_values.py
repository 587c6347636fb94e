"""Texts and JSON of the store, beside what the standard library writes."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from valor_gpu.errors import InputError
from valor_gpu.store import values
from valor_gpu.store.values import json_text

_VALUES = [{"a": [1, 0.1, -0.0, None, True, 'é"\u2028\x00'], "": {}}, [], "text", 10**30, 5e-324, (1, [2])]


@pytest.mark.parametrize("value", _VALUES)
def test_json_is_that_of_the_standard_encoder(value: object) -> None:
    assert json_text("value", value) == json.dumps(value, ensure_ascii=False, allow_nan=False)


def test_json_that_holds_itself_is_an_error() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(InputError, match="value must hold JSON values"):
        json_text("value", value)


def test_a_python_without_the_native_encoder_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"a": [1, 0.1, "é"], "b": MappingProxyType({"c": 1})}
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    assert values._encoder()(value) == values.encoded(value) == '{"a": [1, 0.1, "é"], "b": {"c": 1}}'
