"""One small implementation of each part of Runyard that can be replaced. docs/extending explains them."""
