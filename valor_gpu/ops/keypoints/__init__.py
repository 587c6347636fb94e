"""Object keypoint similarity, and its pairs for matching."""
