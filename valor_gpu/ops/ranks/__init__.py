"""ROC AUC, average precision and curves from ranked scores."""
