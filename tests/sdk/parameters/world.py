"""What the calls of the fuzz work on: a workspace with a run, data, models and targets, each made when first needed."""

from __future__ import annotations

import itertools
from functools import cached_property
from pathlib import Path
from typing import Any

from azureml.core import Dataset, Datastore, Environment, Experiment, Model, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeInstance, ComputeTarget
from azureml.train.hyperdrive import RandomParameterSampling, choice
from runyard.sdk.runs.run import Run

CSV = "day,city,size\n2020-01-01,Oslo,1\n2020-02-01,Bergen,x\n"


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "train.py").write_text("pass\n")
        (folder / "a.csv").write_text(CSV)
        (folder / "b.csv").write_text("day,city,size\n2020-03-01,Rome,3\n")
        (folder / "a.json").write_text('{"day": "2020-01-01", "size": 1}\n')
        (folder / "conda.yml").write_text("name: a\ndependencies: [python=3.8, pip: [requests]]\n")
        (folder / "requirements.txt").write_text("requests==2.31.0\n")
        (folder / "key").write_text("KEY")
        (folder / "odd.csv").write_text("day,size\n2020-01-01,1\n9999-01-01,x\n")
        (folder / "there").mkdir()
        (folder / "there" / "train.py").write_text("other\n")

    def name(self) -> str:
        """Return a name that nothing has yet; the comparison of outcomes does not look at its number."""
        return f"fz{next(self._numbers):05d}"

    def empty(self) -> Path:
        folder = self.folder / self.name()
        folder.mkdir()
        return folder

    @cached_property
    def workspace(self) -> Workspace:
        return Workspace.create("fuzz", exist_ok=True)

    @cached_property
    def experiment(self) -> Experiment:
        return Experiment(self.workspace, "fuzz")

    @cached_property
    def datastore(self) -> Any:
        found = self.workspace.get_default_datastore()
        files = [str(self.folder / name) for name in ("a.csv", "b.csv", "a.json", "odd.csv")]
        found.upload_files(files, target_path="fuzz", overwrite=True, show_progress=False)
        return found

    @cached_property
    def table(self) -> Any:
        return Dataset.Tabular.from_delimited_files((self.datastore, "fuzz/a.csv"))

    @cached_property
    def parquet(self) -> Any:
        files = self.table.to_parquet_files()
        return self.datastore, files._spec.sources[0].path

    @cached_property
    def files(self) -> Any:
        return Dataset.File.from_files((self.datastore, "fuzz"))

    def registered(self, kind: str = "files") -> Any:
        return getattr(self, kind).take(1).register(self.workspace, self.name(), create_new_version=True)

    @cached_property
    def live(self) -> Run:
        """An interactive run that goes on until the end of the fuzz."""
        return self.experiment.start_logging(snapshot_directory=None)

    @cached_property
    def waiting(self) -> Any:
        """A target whose runs wait: an instance that is stopped."""
        made = self.instance()
        made.stop()
        config = self.script_run_config(compute_target=made)
        self._waiting = [self.experiment.submit(config, tags=tags) for tags in ({"other": "tag"}, {})]
        self._waiting[0].add_properties({"other": "tag"})
        return made

    def close(self) -> None:
        for run in [*([self.live] if "live" in self.__dict__ else []), *getattr(self, "_waiting", ())]:
            run.cancel()

    @cached_property
    def run(self) -> Run:
        """A completed run with metrics, files, tags, a snapshot and a child."""
        run = self.experiment.start_logging(snapshot_directory=str(self.project), display_name="shown")
        run.log("loss", 0.5)
        run.log("loss", 0.25)
        run.tag("kind", "good")
        run.upload_file("outputs/a.csv", str(self.folder / "a.csv"))
        run.upload_file("outputs/deep/b.csv", str(self.folder / "b.csv"))
        child = run.child_run("inner")
        child.log("inner", 1)
        child.child_run("innermost").complete()
        child.complete()
        run.complete()
        return run

    @cached_property
    def experiment_of_runs(self) -> Experiment:
        """An experiment with a few runs that stay as they are."""
        made = Experiment(self.workspace, "fuzz-runs")
        run = made.start_logging(snapshot_directory=None, display_name="first")
        run.tag("kind", "good")
        run.add_properties({"kind": "good"})
        run.child_run("inner").complete()
        run.complete()
        made.start_logging(snapshot_directory=None, display_name="second").fail()
        return made

    @cached_property
    def pool_with_runs(self) -> Any:
        pool = self.fresh_pool()
        config = self.script_run_config(compute_target=pool)
        for tags in ({"kind": "good"}, {}):
            self.experiment.submit(config, tags=tags).cancel()
        return pool

    @property
    def sampling(self) -> Any:
        return RandomParameterSampling({"--rate": choice(1, 2)})

    def script_run_config(self, **more: Any) -> ScriptRunConfig:
        return ScriptRunConfig(str(self.project), "train.py", **more)

    def configured(self, run_config: Any) -> ScriptRunConfig:
        return ScriptRunConfig(str(self.project), run_config=run_config)

    def in_image(self, docker: Any) -> ScriptRunConfig:
        environment = Environment.from_docker_image("imaged", "an/image")
        return self.script_run_config(environment=environment, docker_runtime_config=docker)

    def referring(self, reference: Any) -> ScriptRunConfig:
        made = self.script_run_config()
        made.run_config.data_references = {"given": reference}
        return made

    def taken(self, kind: str) -> str:
        """Return the name of a datastore, dataset, model or workspace that is there."""
        name = self.name()
        if kind == "datastore":
            Datastore.register_folder(self.workspace, name, str(self.folder))
        elif kind == "dataset":
            self.files.register(self.workspace, name)
        elif kind == "workspace":
            Workspace.create(name)
        return name

    def filled(self) -> str:
        """Return a folder that has the files of the dataset and the model already."""
        folder = self.empty()
        for name in ("a.csv", "b.csv", "a.json", "odd.csv"):
            (folder / name).write_text("old")
        return str(folder)

    def uploaded(self) -> dict[str, str]:
        """Return a folder and where its files are on the datastore already."""
        folder, place = self.filled(), self.name()
        self.datastore.upload(folder, place, show_progress=False)
        return {"src_dir": folder, "target_path": place}

    def downloaded(self) -> Path:
        folder = self.empty()
        self.datastore.download(str(folder), "fuzz", show_progress=False)
        return folder

    def other_script(self) -> str:
        (self.project / "other.py").write_text("pass\n")
        return "other.py"

    @cached_property
    def two_versions(self) -> str:
        name = self.name()
        for _ in range(2):
            Model.register(self.workspace, str(self.folder / "a.csv"), name)
        return name

    @cached_property
    def environment(self) -> Environment:
        return Environment("fuzz")

    @cached_property
    def model(self) -> Model:
        return Model.register(self.workspace, str(self.folder / "a.csv"), "fuzz-model", tags={"kind": "good"})

    def fresh_model(self) -> Model:
        return Model.register(self.workspace, str(self.folder / "a.csv"), self.name(), tags={"old": "1"})

    @cached_property
    def pool(self) -> Any:
        return ComputeTarget.create(
            self.workspace, "fuzz-pool", AmlCompute.provisioning_configuration(min_nodes=0, max_nodes=2)
        )

    def fresh_pool(self) -> Any:
        configuration = AmlCompute.provisioning_configuration(max_nodes=3)
        return ComputeTarget.create(self.workspace, self.name(), configuration)

    def instance(self) -> Any:
        return ComputeTarget.create(self.workspace, self.name(), ComputeInstance.provisioning_configuration())
