"""The part of `azureml.core` that an export calls, over a workspace that is kept in a JSON file (`AZURE_SERVICE`).

Names, parameters and shapes are those of azureml-core 1.61. Python 3.6, as old environments have. Faults on demand:
each `throttled_every`th call is answered 429, a name only once, so that asking again helps; `missing` names files that
are lost, `dies_after` ends the process.
"""

import datetime
import json
import os
import threading
import zipfile

VERSION = "1.61.0"
_lock = threading.Lock()
_calls = {"count": 0}
_throttled = set()
with open(os.environ["AZURE_SERVICE"]) as _file:
    _service = json.load(_file)


class ServiceException(Exception):
    def __init__(self, status_code, message, headers=None):
        super().__init__(message)
        self.message, self.status_code = message, status_code
        self.response = Record(status_code=status_code, headers=headers or {})


class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def _answer(name):
    with _lock:
        _calls["count"] += 1
        with open(os.environ["AZURE_SERVICE"] + ".calls", "a") as file:
            file.write(name + "\n")
        if _calls["count"] == _service.get("dies_after"):
            os._exit(9)
        every = _service.get("throttled_every")
        if every and _calls["count"] % every == 0 and name not in _throttled:
            _throttled.add(name)
            raise ServiceException(429, "Too many requests", {"Retry-After": "0"})
    if name in _service.get("refused", {}):
        status = _service["refused"][name]
        raise ServiceException(status, "refused: " + name)


class Workspace:
    subscription_id, resource_group, location, tags = "0000", "rg", "westeurope", {"team": "x"}

    def __init__(self):
        self.name = _service["name"]

    @staticmethod
    def from_config(path=None):
        if path and not os.path.exists(path):
            raise ValueError("We could not find config.json in: " + path)
        return Workspace()

    @staticmethod
    def get(name, auth=None, subscription_id=None, resource_group=None):
        return Workspace()

    @property
    def datastores(self):
        _answer("datastores")
        return {one["name"]: Record(**one) for one in _service["datastores"]}


class Experiment:
    def __init__(self, workspace, name):
        facts = _service["experiments"][name]
        self.workspace, self.name = workspace, name
        self.id, self.tags, self.archived_time = facts["id"], facts["tags"], facts["archived_time"]

    @staticmethod
    def list(workspace, experiment_name=None, view_type="ActiveOnly", tags=None):
        _answer("experiments")
        found = [Experiment(workspace, name) for name in _service["experiments"]]
        return [one for one in found if view_type == "All" or one.archived_time is None]

    def get_runs(self, type=None, tags=None, properties=None, include_children=False):
        for number, (run_id, facts) in enumerate(sorted(_service["runs"].items())):
            if number % 3 == 0:
                _answer("runs")
            if facts["experiment"] == self.name and (include_children or not facts["dto"].get("parent_run_id")):
                yield Run(self, run_id, _listed=True)


class Run:
    def __init__(self, experiment, run_id, outputs=None, _listed=False):
        if not _listed:
            _answer("run " + run_id)
        self.experiment, self.id = experiment, run_id
        self._facts = _service["runs"].get(run_id) or {}
        dto = self._run_dto = self._facts.get("dto", {})
        self.number, self.type = dto.get("run_number"), dto.get("run_type")
        self.display_name, self.description = dto.get("display_name"), dto.get("description")
        self._client = Record(metrics=Metrics(self._facts.get("metrics", {}))) if _service["has_samples"] else Record()

    def get_status(self):
        return self._run_dto["status"]

    def get_details(self):
        _answer("details")
        return {
            "runId": self.id,
            "status": self._run_dto["status"],
            "startTimeUtc": self._run_dto.get("start_time_utc"),
            "endTimeUtc": self._run_dto.get("end_time_utc"),
            "runDefinition": self._facts.get("definition"),
            "logFiles": {"user_logs/std_log.txt": "https://account.blob.core.windows.net/x?sig=SECRET"},
            "inputDatasets": [{"dataset": Record(id="d-1", name="mnist", version=2), "consumptionDetails": {}}],
            "error": self._facts.get("error"),
        }

    def get_tags(self):
        _answer("tags")
        return self._run_dto.get("tags", {})

    def get_properties(self):
        return self._run_dto.get("properties", {})

    def get_metrics(self, name=None, recursive=False, run_type=None, populate=False):
        _answer("metrics")
        return self._facts.get("merged", {})

    def get_file_names(self):
        _answer("files")
        return list(self._facts.get("files", {}))

    def download_file(self, name, output_file_path=None, _validate_checksum=False):
        _answer("file " + name)
        if name in _service.get("missing", []):
            raise ServiceException(404, "The specified blob does not exist.")
        with open(output_file_path, "w", encoding="latin-1") as file:
            file.write(self._facts["files"][name])

    def restore_snapshot(self, snapshot_id=None, path=None):
        _answer("snapshot " + snapshot_id)
        os.makedirs(path, exist_ok=True)
        place = os.path.join(path, snapshot_id + ".zip")
        with zipfile.ZipFile(place, "w") as packed:
            for name, text in _service["snapshots"][snapshot_id].items():
                packed.writestr(zipfile.ZipInfo(name), text)
        return place


class HyperDriveRun(Run):
    def get_metrics(self):
        raise AssertionError("metrics of the children are asked for one by one")


class Metrics:
    def __init__(self, metrics):
        self._metrics = metrics

    def list_metric_names_for_run_id(self, run_id=None, custom_headers=None):
        _answer("metric names")
        return list(self._metrics)

    def get_metric_dto_for_run_v2(self, name, run_id=None, start_time=None, end_time=None, custom_headers=None):
        _answer("metric " + name)
        found = self._metrics[name]
        start = datetime.datetime(2023, 5, 4, 3, 2, 1, tzinfo=datetime.timezone.utc)
        values = [
            Record(step=step, created_utc=start + datetime.timedelta(seconds=at), data=data)
            for at, (step, data) in enumerate(found["rows"])
        ]
        return Record(
            name=name, columns=found["columns"], value=values, properties=Record(ux_metric_type=found["kind"])
        )


class Model:
    def __init__(self, facts):
        self._facts = facts
        self.__dict__.update({key: value for key, value in facts.items() if key != "files"})
        self.id = "{}:{}".format(facts["name"], facts["version"])

    @staticmethod
    def list(workspace, name=None, latest=False):
        _answer("models")
        return [Model(facts) for facts in _service["models"]]

    def download(self, target_dir=".", exist_ok=False, exists_ok=None):
        _answer("model " + self.id)
        for name, text in self._facts["files"].items():
            place = os.path.join(target_dir, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w") as file:
                file.write(text)
        return os.path.join(target_dir, next(iter(self._facts["files"])).split("/")[0])


class Environment:
    def __init__(self, facts):
        self.name, self.version, self._files = facts["name"], facts["version"], facts["files"]

    @staticmethod
    def list(workspace):
        _answer("environments")
        return {one["name"]: Environment(one) for one in _service["environments"]}

    @staticmethod
    def get(workspace, name, version=None, label=None):
        _answer("environment " + name)
        for one in _service["environments"]:
            if (one["name"], one["version"]) == (name, version):
                return Environment(one)
        raise ServiceException(404, "Environment not found")

    def save_to_directory(self, path, overwrite=False):
        os.makedirs(path)
        for name, text in self._files.items():
            with open(os.path.join(path, name), "w") as file:
                file.write(text)


class FileDataset:
    def __init__(self, facts):
        self.id, self.name, self.version = facts["id"], facts["name"], facts["version"]
        self.description, self.tags, self.data_changed_time = facts["description"], {}, None
        self._text = facts["definition"]

    def __str__(self):
        return "FileDataset\n" + json.dumps(self._text)


class Dataset:
    @staticmethod
    def get_all(workspace):
        _answer("datasets")
        return {one["name"]: FileDataset(one) for one in _service["datasets"]}

    @staticmethod
    def get_by_name(workspace, name, version="latest"):
        _answer("dataset " + name)
        for one in _service["datasets"]:
            if (one["name"], one["version"]) == (name, version):
                return FileDataset(one)
        raise ServiceException(404, "not found")
