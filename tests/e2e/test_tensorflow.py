"""Real TensorFlow: parameter servers in the three ways that scripts of these years use."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureml.core import Experiment, Run
from azureml.core.runconfig import TensorflowConfiguration
from tests.e2e.conftest import finish
from tests.e2e.frameworks import TENSORFLOW, TENSORFLOW_2_15, interpreter_with, logs_of, submit_to

pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]

# As Azure's, TF_CONFIG knows workers and servers alone: a script that wants a chief makes worker 0 one.
CHIEF = """
    import json, os
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    config = json.loads(os.environ["TF_CONFIG"])
    workers, task = config["cluster"]["worker"], config["task"]
    config["cluster"] = {"chief": workers[:1], "worker": workers[1:], "ps": config["cluster"]["ps"]}
    if task["type"] == "worker":
        is_chief = task["index"] == 0
        config["task"] = {"type": "chief" if is_chief else "worker", "index": 0 if is_chief else task["index"] - 1}
    os.environ["TF_CONFIG"] = json.dumps(config)
"""
STRATEGY = (
    CHIEF
    + """
    import time
    import tensorflow as tf
    from azureml.core import Run

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        if resolver.task_type == "ps":
            server.join()
        while not os.path.exists("outputs/trained"):
            time.sleep(0.1)
        os._exit(0)
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([4, 1]))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def examples():
        x = tf.random.normal([512, 4], seed=1)
        y = tf.reduce_sum(x * [[1.0, 2.0, 3.0, 4.0]], 1, keepdims=True)
        return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(64)

    @tf.function
    def step(iterator):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights - y) ** 2)
        weights.assign_sub(0.05 * tape.gradient(loss, weights))
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(examples))
    for _ in range(100):
        loss = coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    run = Run.get_context()
    run.log("loss", float(loss.fetch()))
    run.log("device", weights.device)
    run.flush()
    open("outputs/trained", "w").close()
    os._exit(0)
"""
)
SERVERS = """
    import json, os
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow.compat.v1 as tf
    from azureml.core import Run
    tf.disable_v2_behavior()

    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    cluster = tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
        counted = tf.train.get_or_create_global_step()
        weights = tf.get_variable("weights", [4, 1], initializer=tf.zeros_initializer())
        x = tf.random_normal([64, 4])
        y = tf.matmul(x, tf.constant([[1.0], [2.0], [3.0], [4.0]]))
        loss = tf.reduce_mean((tf.matmul(x, weights) - y) ** 2)
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=counted)
    # Else a worker waits for all others before it begins, also for one that has ended already.
    alone = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    with tf.train.MonitoredTrainingSession(master=server.target, is_chief=index == 0, config=alone) as session:
        for _ in range(80):
            value, _ = session.run([loss, train])
    run = Run.get_context()
    run.log("loss", float(value))
    run.log("device", weights.device)
    run.flush()
    os._exit(0)
"""
ESTIMATOR = (
    CHIEF
    + """
    import tensorflow as tf
    from azureml.core import Run

    def examples():
        x = tf.random.normal([256, 4], seed=1)
        y = tf.reduce_sum(x * [[1.0, 2.0, 3.0, 4.0]], 1, keepdims=True)
        return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat().batch(64)

    def model(features, labels, mode):
        weights = tf.compat.v1.get_variable("weights", [4, 1], initializer=tf.compat.v1.zeros_initializer())
        loss = tf.reduce_mean((features["x"] @ weights - labels) ** 2)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.05)
        train = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    settings = tf.estimator.RunConfig(model_dir="outputs/model", save_checkpoints_steps=1000)
    estimator = tf.estimator.Estimator(model, config=settings)
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(examples, max_steps=150), tf.estimator.EvalSpec(examples, steps=1)
    )
    if settings.is_chief:
        run = Run.get_context()
        run.log("steps", int(estimator.get_variable_value("global_step")))
        run.log("first", float(estimator.get_variable_value("weights")[0, 0]))
"""
)


@pytest.fixture(scope="session")
def tensorflow() -> str:
    return interpreter_with(TENSORFLOW)


def completed(run: Run) -> Run:
    assert finish(run)["status"] == "Completed", {name: text[-3000:] for name, text in logs_of(run).items()}
    return run


def test_a_parameter_server_strategy_whose_chief_is_worker_0(
    experiment: Experiment, project: Path, tensorflow: str
) -> None:
    job = TensorflowConfiguration(worker_count=3, parameter_server_count=1)
    run = completed(submit_to(experiment, project, tensorflow, STRATEGY, distributed_job_config=job))

    metrics = run.get_metrics(rank="lowest")
    assert metrics["loss"] < 0.1
    assert "/job:ps/" in metrics["device"]
    assert sorted(logs_of(run)) == ["node_00_ps", "node_00_worker", "node_01_worker", "node_02_worker"]


def test_servers_and_workers_of_tensorflow_1(experiment: Experiment, project: Path, tensorflow: str) -> None:
    job = TensorflowConfiguration(worker_count=2, parameter_server_count=1)
    run = completed(submit_to(experiment, project, tensorflow, SERVERS, distributed_job_config=job))

    assert run.get_metrics(rank="lowest")["loss"] < 0.1
    assert run.get_metrics(rank="lowest")["device"] == "/job:ps/task:0"


def test_an_estimator_of_tensorflow_2_15(experiment: Experiment, project: Path) -> None:
    job = TensorflowConfiguration(worker_count=2, parameter_server_count=1)
    interpreter = interpreter_with(TENSORFLOW_2_15)
    run = completed(submit_to(experiment, project, interpreter, ESTIMATOR, distributed_job_config=job))

    assert run.get_metrics(rank="lowest")["steps"] >= 150
    assert run.get_metrics(rank="lowest")["first"] == pytest.approx(1.0, abs=0.1)
