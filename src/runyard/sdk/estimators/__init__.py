"""`Estimator`, `TensorFlow`, `PyTorch`, `Chainer`, `SKLearn`: their parameters become a run configuration.

May enter: submit, azureml.
Loads: with the first estimator.
"""
