"""Numbers of many groups of images at once."""
