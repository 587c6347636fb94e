"""The exceptions of valor_core, and the one for what is not implemented."""

from __future__ import annotations

from valor_gpu.errors import InputError, ValorError


class InvalidLLMResponseError(ValorError):
    """A judge's reply that cannot be read.

    It is here for programs that catch it. Nothing raises it: such a row has the status ``error`` and no value.
    """


class MismatchingTextGenerationDatumError(InputError):
    """Datums of one uid have different texts or metadata."""


class NotSupportedError(InputError, NotImplementedError):
    """Something of valor_core that this package does not have."""
