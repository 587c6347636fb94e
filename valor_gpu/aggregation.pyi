"""Names of torchmetrics.aggregation."""

from torchmetrics.aggregation import *  # noqa: F403
