"""A sweep with the sampler and the policy of this package: `python sweep/submit.py`."""

from pathlib import Path

from my_runyard.halton import HaltonSampling
from my_runyard.patience import PatiencePolicy

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.train.hyperdrive import HyperDriveConfig, PrimaryMetricGoal, uniform

environment = Environment("user-managed-env")
environment.python.user_managed_dependencies = True
script = ScriptRunConfig(
    source_directory=str(Path(__file__).parent),
    script="train.py",
    compute_target="local",
    environment=environment,
    max_run_duration_seconds=120,
)
config = HyperDriveConfig(
    run_config=script,
    hyperparameter_sampling=HaltonSampling({"--x": uniform(0, 1)}),
    policy=PatiencePolicy(patience=5),
    primary_metric_name="loss",
    primary_metric_goal=PrimaryMetricGoal.MINIMIZE,
    max_total_runs=3,
    max_concurrent_runs=3,
)
sweep = Experiment(Workspace.from_config(), "halton").submit(config)
sweep.wait_for_completion()
for trial in sorted(sweep.get_children(), key=lambda trial: trial.number):
    print(trial.tags["hyperparameters"], trial.status)
