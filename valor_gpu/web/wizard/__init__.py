"""Drafts of evaluations: what forms said, what the run would do and cost, and where its data come from."""
