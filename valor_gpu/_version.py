"""The version: packaging reads it here, results carry it."""

__version__ = "0.2.0"
