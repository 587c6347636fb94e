"""Masking: what must never be shown, and what must stay as it is."""

from __future__ import annotations

import base64
import json
import pickle
from urllib.parse import quote

import pytest

from testing.growth import FACTOR, growth
from valor_gpu.errors import InputError
from valor_gpu.evaluation.secrets import Secrets, is_secret_name, resolve_env

KEY = "Zx9/secret+value=="


def secrets(*values: str) -> Secrets:
    made = Secrets()
    for value in values:
        made.add(value)
    return made


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        KEY.upper(),
        quote(KEY, safe=""),
        base64.b64encode(KEY.encode()).decode(),
        repr({"Authorization": f"Bearer {KEY}"}),
        json.dumps({"error": f"no such key: {KEY}"}),
        f"https://host/v1?q=1&x={quote(KEY)}",
    ],
)
def test_a_known_key_is_masked_in_every_form(form: str) -> None:
    masked = secrets(f"Bearer {KEY}").mask(f"HTTP 400: {form}")
    assert "***" in masked and "secret" not in masked.lower() and "Wng5" not in masked
    assert masked.startswith("HTTP 400: ")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("{'authorization': 'Basic Zm9vOmJhcg=='}", "{'authorization': '***'}"),
        ('{"api-key": "1234", "model": "m"}', '{"api-key": "***", "model": "m"}'),
        ('"{\\"api_key\\": \\"1234\\"}"', '"{\\"api_key\\": \\"***\\"}"'),
        ("[(b'x-api-key', b'abc')]", "[(b'x-api-key', b'***')]"),
        ("got Bearer abcdefgh1", "got Bearer ***"),
        ("https://me:pw@host/v1", "https://***@host/v1"),
        ("at /x?code=abc&sv=1", "at /x?code=***&sv=1"),
        ("/x?a=1&sig=abc%2F&se=2", "/x?a=1&sig=***&se=2"),
        ("/x?subscription-key=abc", "/x?subscription-key=***"),
        ("wrong sk-abcdefghijklmnop", "wrong ***"),
        ("max_tokens: 5 and tokens=7", "max_tokens: 5 and tokens=7"),
        ("keyboard input, the key to success", "keyboard input, the key to success"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert Secrets().mask(text) == masked


def test_short_secrets_and_stand_ins_do_not_change_words() -> None:
    made = secrets("hunt7", "none", "EMPTY", "ab")
    assert made.mask("none: hunt7 is not in hunt77, empty ab") == "none: *** is not in hunt77, empty ab"
    assert made.mask_data({"a": ["hunt7 none"]}) == {"a": ["hunt7 none"]}
    assert secrets(KEY).mask_data({KEY: [f"x{KEY}y", 1, None]}) == {"***": ["x***y", 1, None]}


def test_the_password_of_basic_authorization_is_a_secret() -> None:
    coded = base64.b64encode(b"me:a-long-password").decode()
    assert secrets(f"Basic {coded}").mask(f"{coded} a-long-password") == "*** ***"


def test_configurations_keep_references_and_names() -> None:
    config = {
        "headers": {"Authorization": "Bearer ${env:T}", "x-token": "abc", "accept": "json"},
        "judge": {"api_key_env": "NAME", "max_tokens": 5, "model": "m"},
        "url": "https://u:p@host/?key=1",
        "key": "id",
    }
    assert Secrets().mask_json(config) == {
        "headers": {"Authorization": "Bearer ${env:T}", "x-token": "***", "accept": "json"},
        "judge": {"api_key_env": "NAME", "max_tokens": 5, "model": "m"},
        "url": "https://***@host/?key=***",
        "key": "id",
    }
    assert Secrets().mask_json({"Authorization": "Bearer ${env:T} and abc"}) == {"Authorization": "***"}


def test_a_message_is_masked_before_it_is_cut() -> None:
    made = secrets(KEY)
    assert made.message("x" * 15 + KEY, limit=20) == "x" * 15 + "***"
    assert made.longest >= len(KEY)


def test_values_are_in_no_repr_and_no_pickle() -> None:
    made = secrets(KEY)
    assert "secret" not in repr(made)
    with pytest.raises(InputError, match="stay in their process"):
        pickle.dumps(made)


def test_references_are_resolved_and_become_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_GPU_TEST_TOKEN", "a-token-12345")
    made = Secrets()
    assert resolve_env("Bearer ${env:VALOR_GPU_TEST_TOKEN}$", made) == "Bearer a-token-12345$"
    assert made.mask("a-token-12345") == "***"
    with pytest.raises(InputError, match=r"^headers\['a'\] needs the environment variable NOT_THERE_7, which"):
        resolve_env("${env:NOT_THERE_7}", name="headers['a']")
    with pytest.raises(InputError, match="has a text that is none"):
        resolve_env("${env:sk-oops}")


def test_names_of_secrets() -> None:
    found = [name for name in ("Api-Key", "X-Auth", "cookie", "sig", "sort_key", "max_tokens", "KEY_ENV", "accept",
                           "tokenizer")
             if is_secret_name(name)]  # fmt: skip
    assert found == ["Api-Key", "X-Auth", "cookie", "sig"]


@pytest.mark.parametrize("part", ["a", "a-", "api_key:", "http://", "x_", "bearer ", "://", '\\"', "?key=", "***"])
def test_masking_takes_time_in_proportion(part: str) -> None:
    assert growth(lambda size: secrets(KEY).mask(part * (size // len(part))), 20_000) < 3 * FACTOR
