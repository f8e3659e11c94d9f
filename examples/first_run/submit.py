"""Submit train.py, watch it, and look at what it left: `make demo` runs this file."""

from pathlib import Path

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

here = Path(__file__).parent

ws = Workspace.from_config()
experiment = Experiment(workspace=ws, name="first-run")

env = Environment("user-managed-env")
env.python.user_managed_dependencies = True

config = ScriptRunConfig(
    source_directory=str(here),
    script="train.py",
    arguments=["--alpha", 0.5],
    compute_target="local",
    environment=env,
    max_run_duration_seconds=600,
)
run = experiment.submit(config, tags={"example": "first_run"})
run.wait_for_completion(show_output=True)

metrics = run.get_metrics()
print(f"\nmse    {len(metrics['mse'])} values, from {metrics['mse'][0]:.1f} to {metrics['mse'][-1]:.1f}")
print(f"r2     {metrics['r2']:.3f} with alpha {metrics['alpha']}")
print("files  " + "\n       ".join(run.get_file_names()))
print(f"page   {run.get_portal_url()}")
