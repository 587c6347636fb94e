"""Makes data/digits_predictions.csv: what a logistic regression says of digits that it has not seen.

scikit-learn's digits (1,797 images of 8 x 8 pixels), five folds; every image is predicted by the model that was fitted
to the four folds without it. Probabilities have four significant digits. Needs scikit-learn; takes seconds.
"""

from __future__ import annotations

import csv
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

OUTPUT = Path(__file__).parent / "data" / "digits_predictions.csv"


def main() -> None:
    """Fit, predict, write."""
    pixels, digits = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=1000))
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
    probabilities = cross_val_predict(model, pixels, digits, cv=folds, method="predict_proba")
    with OUTPUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["digit", *(f"p_{digit}" for digit in range(10))])
        for digit, row in zip(digits, probabilities):
            writer.writerow([digit, *(f"{p:.4g}" for p in row)])


if __name__ == "__main__":
    main()
