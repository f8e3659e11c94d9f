"""Horovod with TensorFlow: a second build of minutes, so it is not among the external tests of every change."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureml.core import Experiment, Workspace
from azureml.train.dnn import TensorFlow
from tests.e2e.estimating import finish, get_pool, keep_horovod, write

pytestmark = pytest.mark.soak

SCRIPT = """
    import tensorflow as tf
    import horovod.tensorflow as hvd
    from azureml.core import Run

    hvd.init()
    w = tf.Variable(tf.random.stateless_normal((4, 1), seed=(hvd.rank(), 0)))
    hvd.broadcast_variables([w], root_rank=0)
    for step in range(100):
        x = tf.random.stateless_normal((32, 4), seed=(hvd.rank(), step))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
        [gradient] = hvd.DistributedGradientTape(tape).gradient(loss, [w])
        w.assign_sub(0.1 * gradient)
    run = Run.get_context()
    run.log('size', hvd.size())
    run.log('ranks', hvd.allreduce(tf.constant(float(hvd.rank() + 1)), op=hvd.Sum))
    run.log('loss', loss)
"""


def test_the_documented_call_trains_over_two_nodes(
    workspace: Workspace, experiment: Experiment, project: Path, session_folder: Path
) -> None:
    keep_horovod(session_folder / "home")
    estimator = TensorFlow(
        source_directory=write(project, SCRIPT),
        script_params={},
        compute_target=get_pool(workspace),
        entry_script="train.py",
        node_count=2,
        process_count_per_node=1,
        distributed_backend="mpi",
        use_gpu=True,
    )
    metrics = finish(experiment, estimator).get_metrics(rank="lowest")

    assert (metrics["size"], metrics["ranks"]) == (2, 3.0) and metrics["loss"] < 1e-3
