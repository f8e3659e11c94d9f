"""`TensorFlow`, `PyTorch`, `SKLearn`, `Chainer`: estimators that install their framework."""

from __future__ import annotations

from typing import ClassVar, List, Mapping

from runyard.sdk.estimators.estimator import Estimator
from runyard.sdk.estimators.estimator_parameters import CHAINER, PYTORCH, SKLEARN, TENSORFLOW, signature_of
from runyard.sdk.estimators.frameworks import named_version, supported_versions


class FrameworkEstimator(Estimator):
    """An Estimator whose environment gets a framework: the version asked for, where there are packages of it."""

    @classmethod
    def get_supported_versions(cls) -> List[str]:
        """Return the values that `framework_version` may have."""
        assert cls._framework is not None
        return supported_versions(cls._framework)

    @property
    def framework_version(self) -> str:
        """The version that was asked for, else the one that is installed."""
        assert self._framework is not None
        asked = self._values["framework_version"]
        return str(asked or named_version(self._framework, self.conda_dependencies.pip_packages))


class TensorFlow(FrameworkEstimator):
    """TensorFlow, on one node, with Horovod (`distributed_backend='mpi'`) or with parameter servers (`'ps'`)."""

    _parameters = TENSORFLOW
    _backends = ("mpi", "ps")
    _framework = "TensorFlow"
    _gets_horovod = True
    __signature__ = signature_of(TENSORFLOW)


class PyTorch(FrameworkEstimator):
    """PyTorch, on one node, with Horovod (`distributed_backend='mpi'`) or torch.distributed (`'gloo'`, `'nccl'`)."""

    _parameters = PYTORCH
    _backends = ("mpi", "gloo", "nccl")
    _framework = "PyTorch"
    _gets_horovod = True
    _variables: ClassVar[Mapping[str, str]] = {"NCCL_TREE_THRESHOLD": "0"}
    __signature__ = signature_of(PYTORCH)


class SKLearn(FrameworkEstimator):
    """scikit-learn, in one process."""

    _parameters = SKLEARN
    _backends = ()
    _framework = "SKLearn"
    __signature__ = signature_of(SKLEARN)


class Chainer(FrameworkEstimator):
    """Chainer, in one process or with MPI."""

    _parameters = CHAINER
    _framework = "Chainer"
    __signature__ = signature_of(CHAINER)
