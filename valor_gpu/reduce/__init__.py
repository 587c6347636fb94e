"""From states to numbers, by pure functions."""
