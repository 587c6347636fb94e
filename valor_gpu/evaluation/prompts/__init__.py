"""Prompts of users: files, templates and the bounds under which they are filled in."""
