"""Runs of a store as pages show them: which ones, their names and tags, their charts, and their end."""
