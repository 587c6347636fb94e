"""Errors reach the process that waits for a worker."""

from __future__ import annotations

import copy
import pickle

import pytest

from valor_gpu.errors import InputError, MissingExtraError, MissingPackageError, StoreError, ValorError
from valor_gpu.judge.protocol import JudgeError

ERRORS = [
    InputError("preds must be finite"),
    StoreError("no such file"),
    MissingExtraError("nltk", "text", "METEOR"),
    MissingPackageError("torch", "valor_gpu.Metric"),
    JudgeError("rate_limited", "slow down", retry_after=2.0, max_retries=3),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_can_be_sent_and_copied(error: ValorError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == str(error)
        assert (again.args, vars(again)) == (error.args, vars(error))
        for name in ("name", "msg"):  # of an ImportError
            assert getattr(again, name, None) == getattr(error, name, None)
