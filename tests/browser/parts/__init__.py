"""One page with every part of Studio's design, for tests alone."""
