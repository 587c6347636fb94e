"""Numbers of resampled data sets."""
