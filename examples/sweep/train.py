"""Fit y = 3x + 1 by gradient descent and log the loss of every epoch."""

import argparse

import runyard

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--momentum", type=float, default=0.0)
args = parser.parse_args()

points = [(i / 10, 3 * i / 10 + 1) for i in range(-10, 11)]
slope = offset = slope_step = offset_step = 0.0
for epoch in range(20):
    errors = [(slope * x + offset - y, x) for x, y in points]
    loss = sum(error**2 for error, _ in errors) / len(points)
    runyard.log({"loss": loss}, step=epoch)
    slope_step = args.momentum * slope_step - args.lr * sum(2 * error * x for error, x in errors) / len(points)
    offset_step = args.momentum * offset_step - args.lr * sum(2 * error for error, _ in errors) / len(points)
    slope, offset = slope + slope_step, offset + offset_step
print(f"slope {slope:.2f}, offset {offset:.2f}, loss {loss:.4f}")
