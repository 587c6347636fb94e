"""Whether scores are logits, and their sigmoid or softmax."""
