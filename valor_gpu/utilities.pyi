"""Names of torchmetrics.utilities."""

from torchmetrics.utilities import *  # noqa: F403
