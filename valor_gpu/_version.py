"""The version: packaging reads it here, results carry it."""

__version__ = "0.1.0"
