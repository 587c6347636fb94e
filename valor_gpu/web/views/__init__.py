"""Pages of Studio, a module for each group."""
