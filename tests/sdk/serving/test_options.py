"""What a deployment is called that nobody named."""

from __future__ import annotations

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.webservices import Scaling
from runyard.sdk.serving.options import DeployOptions, service_name


@pytest.mark.parametrize(
    ("models", "entry", "name"),
    [
        (["digits:3"], None, "digits"),
        (["./out/My Model_v2.onnx"], None, "my-model-v2"),
        ([], "src/score_it.py", "score-it"),
        (["2018_" + "x" * 60], None, "x" * 32),
    ],
)
def test_a_service_is_called_after_its_model_or_script(models: list[str], entry: str | None, name: str) -> None:
    assert service_name(DeployOptions(models=models, entry=entry)) == name


def test_a_range_of_replicas_scales_by_load() -> None:
    assert DeployOptions(replicas=3).scaling == Scaling(replicas=3)
    assert DeployOptions(min_replicas=0).scaling == Scaling(is_on=True, min_replicas=0, max_replicas=10)
    assert DeployOptions(min_replicas=20).scaling == Scaling(is_on=True, min_replicas=20, max_replicas=20)
    assert DeployOptions(max_replicas=2).scaling == Scaling(is_on=True, min_replicas=1, max_replicas=2)
    assert DeployOptions().scaling is None
    with pytest.raises(InvalidArgument, match="and a range"):
        _ = DeployOptions(replicas=1, max_replicas=2).scaling
