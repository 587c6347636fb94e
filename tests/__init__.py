"""Prepares the imports of the pytest process and of the processes that it starts."""

import testing.prepare  # noqa: F401
