"""The estimators' documented calls with real frameworks, on this machine and on a pool of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, Workspace
from azureml.train.dnn import Mpi, PyTorch, TensorFlow
from azureml.train.sklearn import SKLearn
from tests.e2e.estimating import finish, get_pool, keep_horovod, write

pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]

FIT = """
    import argparse
    import sklearn
    import tensorflow as tf
    from azureml.core import Run

    parser = argparse.ArgumentParser()
    parser.add_argument('--batch-size', type=int)
    parser.add_argument('--learning-rate', type=float)
    given = parser.parse_args()
    run = Run.get_context()
    x = tf.random.stateless_normal((given.batch_size, 4), seed=(1, 2))
    w = tf.Variable(tf.zeros((4, 1)))
    for _ in range(200):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
        w.assign_sub(10 * given.learning_rate * tape.gradient(loss, w))
    run.log('loss', loss)
    run.log('sklearn', sklearn.__version__)
    run.log('gpus', len(tf.config.list_physical_devices('GPU')))
"""
READ = """
    import argparse, os
    import torch
    from azureml.core import Run

    parser = argparse.ArgumentParser()
    parser.add_argument('--data_dir')
    folder = parser.parse_args().data_dir
    numbers = [float(text) for text in open(os.path.join(folder, 'numbers.txt')).read().split()]
    Run.get_context().log('sum', torch.tensor(numbers).sum().item())
"""
HOROVOD_TORCH = """
    import torch
    import horovod.torch as hvd
    from azureml.core import Run

    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(4, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    for _ in range(100):
        x = torch.randn(32, 4)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([value.flatten() for value in model.state_dict().values()])
    assert torch.equal(hvd.allgather(weights[None])[0], hvd.allgather(weights[None])[1]), 'the models differ'
    run = Run.get_context()
    run.log('size', hvd.size())
    run.log('local size', hvd.local_size())
    run.log('ranks', hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum).item())
    run.log('loss', loss.item())
    hvd.shutdown()
"""
MPI_ALONE = """
    from mpi4py import MPI
    from azureml.core import Run

    Run.get_context().log('ranks', MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.Get_rank() + 1))
"""
SERVERS = """
    import json, os
    import tensorflow.compat.v1 as tf
    from azureml.core import Run

    tf.disable_v2_behavior()
    config = json.loads(os.environ['TF_CONFIG'])
    kind, index = config['task']['type'], config['task']['index']
    cluster = tf.train.ClusterSpec(config['cluster'])
    server = tf.train.Server(cluster, job_name=kind, task_index=index)
    if kind == 'ps':
        server.join()
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f'/job:worker/task:{index}')):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable('w', [4, 1], initializer=tf.zeros_initializer())
        x = tf.random_normal([64, 4])
        loss = tf.reduce_mean((tf.matmul(x, w) - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
    # Else a worker waits for all others before it begins, also for one that has ended already.
    alone = tf.ConfigProto(device_filters=['/job:ps', f'/job:worker/task:{index}'])
    with tf.train.MonitoredTrainingSession(master=server.target, is_chief=index == 0, config=alone) as session:
        for _ in range(80):
            value, _ = session.run([loss, train])
    run = Run.get_context()
    run.log('loss', value)
    run.log('tasks', ' '.join(f'{name}:{len(hosts)}' for name, hosts in sorted(config['cluster'].items())))
    run.log('variable', w.device)
"""


@pytest.fixture(params=["local", "pool"])
def compute_target(request: pytest.FixtureRequest, workspace: Workspace) -> Any:
    return "local" if request.param == "local" else get_pool(workspace)


@pytest.fixture
def horovod(session_folder: Path) -> None:
    keep_horovod(session_folder / "home")


def test_tensorflow_on_one_node(experiment: Experiment, project: Path, compute_target: Any) -> None:
    estimator = TensorFlow(
        source_directory=write(project, FIT),
        script_params={"--batch-size": 50, "--learning-rate": 0.01},
        compute_target=compute_target,
        entry_script="train.py",
        conda_packages=["scikit-learn"],
        use_gpu=True,
    )
    run = finish(experiment, estimator)
    metrics = run.get_metrics()

    assert metrics["loss"] < 1e-3 and metrics["sklearn"][0] in "12"
    warnings = [one["message"] for one in run.get_details()["warnings"]]
    assert metrics["gpus"] > 0 or any("runs on the CPU" in text for text in warnings)


def test_pytorch_reads_a_datastore(
    workspace: Workspace, experiment: Experiment, project: Path, tmp_path: Path, compute_target: Any
) -> None:
    ds = workspace.get_default_datastore()
    (tmp_path / "numbers.txt").write_text("1 2 3.5")
    ds.upload_files([str(tmp_path / "numbers.txt")], overwrite=True, show_progress=False)
    estimator = PyTorch(
        source_directory=write(project, READ),
        script_params={"--data_dir": ds},
        compute_target=compute_target,
        entry_script="train.py",
        use_gpu=True,
    )

    assert finish(experiment, estimator).get_metrics()["sum"] == 6.5


def test_tensorflow_with_parameter_servers(experiment: Experiment, project: Path, compute_target: Any) -> None:
    estimator = TensorFlow(
        source_directory=write(project, SERVERS),
        script_params={},
        compute_target=compute_target,
        entry_script="train.py",
        node_count=2,
        worker_count=2,
        parameter_server_count=1,
        distributed_backend="ps",
        use_gpu=True,
    )
    metrics = finish(experiment, estimator).get_metrics(rank="lowest")

    assert metrics["loss"] < 0.5
    assert metrics["tasks"] == "ps:1 worker:2" and "/job:ps" in metrics["variable"]


@pytest.mark.usefixtures("horovod")
@pytest.mark.parametrize("compute_target", ["pool"], indirect=True)
def test_horovod_with_pytorch_over_two_nodes(experiment: Experiment, project: Path, compute_target: Any) -> None:
    estimator = PyTorch(
        source_directory=write(project, HOROVOD_TORCH),
        script_params={},
        compute_target=compute_target,
        entry_script="train.py",
        node_count=2,
        distributed_training=Mpi(process_count_per_node=1),
        use_gpu=True,
    )
    run = finish(experiment, estimator)
    metrics = run.get_metrics(rank=0)

    assert (metrics["size"], metrics["local size"], metrics["ranks"]) == (2, 1, 3.0)
    assert metrics["loss"] < 1e-3
    assert run.get_environment().python.conda_dependencies.pip_packages.count("horovod==0.28.1") == 1


@pytest.mark.usefixtures("horovod")
def test_a_script_may_use_mpi_without_horovod(experiment: Experiment, project: Path) -> None:
    estimator = PyTorch(
        source_directory=write(project, MPI_ALONE),
        compute_target="local",
        entry_script="train.py",
        node_count=2,
        process_count_per_node=2,
        distributed_backend="mpi",
        pip_packages=["mpi4py"],
    )

    assert finish(experiment, estimator).get_metrics()["ranks"] == [10] * 4


def test_scikit_learn(experiment: Experiment, project: Path) -> None:
    script = "import sklearn; from azureml.core import Run; Run.get_context().log('version', sklearn.__version__)"
    estimator = SKLearn(source_directory=write(project, script), compute_target="local", entry_script="train.py")

    assert finish(experiment, estimator).get_metrics()["version"] == estimator.framework_version
