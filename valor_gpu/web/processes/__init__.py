"""Processes of runs, which neither the server nor a browser ends, and what they say of themselves."""
