"""`azureml.train.hyperdrive.sampling`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

BayesianParameterSampling = placeholder("azureml.train.hyperdrive.sampling.BayesianParameterSampling")
GridParameterSampling = placeholder("azureml.train.hyperdrive.sampling.GridParameterSampling")
HyperParameterSampling = placeholder("azureml.train.hyperdrive.sampling.HyperParameterSampling")
RandomParameterSampling = placeholder("azureml.train.hyperdrive.sampling.RandomParameterSampling")

__all__ = ["BayesianParameterSampling", "GridParameterSampling", "HyperParameterSampling", "RandomParameterSampling"]
