"""Export the history of an Azure ML workspace (SDK v1) into a folder, while the service still answers.

This file is complete: copy it to where `azureml-core` is installed and signed in (Python 3.6 or newer), and start it:

    python export.py FOLDER --config config.json

It only reads from the workspace. It may be stopped at any time; the same command goes on where it was. The folder
gets the runs with their children, metrics, tags, properties, files and snapshots, and the models, environments and
the definitions of datasets and datastores. Keys and signed addresses are left out, but what your runs logged and the
variables of their run definitions are in there: keep the folder as you keep the workspace.

Then, where Runyard is installed: runyard import azureml FOLDER
"""

import argparse
import collections
import errno
import importlib
import json
import os
import random
import re
import shutil
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, MutableMapping, Optional, Tuple

Facts = MutableMapping[str, Any]  # as the service gives them
FORMAT = 1  # of the folder
FINAL = ("Completed", "Failed", "Canceled")
RETRIED = (408, 429, 500, 502, 503, 504, 530)
NETWORK_ERRORS = re.compile(
    "connection|timeout|timed out|temporarily|too many requests|throttl|ssl|reset by peer", re.I
)
SAFE_NAME = re.compile(r"[A-Za-z0-9][\w\-]{0,255}$", re.ASCII)
ODD = re.compile(r'[%<>:"|?*\\\x00-\x1f\x7f]')
RESERVED = re.compile(r"(?:CON|PRN|AUX|NUL|COM\d|LPT\d)(?:\.|$)", re.I)  # no file can have these names on Windows
MOST_TRIES = 9
LONGEST_WAIT_S = 120.0


class Stopped(Exception):
    """The user pressed Ctrl-C, or the disk is full: threads end, and the next start goes on."""


class Service:
    """Calls the workspace. When it says that there are too many calls, all threads wait."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.reason = ""
        self.waits = 0
        self._not_before = 0.0
        self._lock = threading.Lock()

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call, and again after a pause when that can help; raises what the last try raised."""
        for attempt in range(MOST_TRIES):
            self._wait_until(self._not_before)
            try:
                return function(*arguments, **named)
            except Exception as error:
                status = status_of(error)
                is_worth_it = status in RETRIED or (status is None and NETWORK_ERRORS.search(describe(error)))
                if not is_worth_it or attempt == MOST_TRIES - 1:
                    raise
                pause = min(2.0**attempt, LONGEST_WAIT_S) * (0.5 + random.random()) * _PAUSE
                pause = max(pause, retry_after(error) or 0.0)
                with self._lock:
                    self.waits += 1
                    if status in (429, 503):  # it is about all calls, not about this one
                        self._not_before = max(self._not_before, time.time() + pause)
                self._wait_until(time.time() + pause)

    def give_up(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.stop.set()

    def _wait_until(self, moment: float) -> None:
        while True:
            if self.stop.is_set():
                raise Stopped()
            left = moment - time.time()
            if left <= 0:
                return
            self.stop.wait(min(left, 1.0))


_PAUSE = float(os.environ.get("RUNYARD_EXPORT_PAUSE", "1"))  # tests wait less


def causes(error: Optional[BaseException]) -> Iterator[Any]:
    """Yield an error and those below it: the SDK wraps answers of the service."""
    seen: List[Any] = []
    while error is not None and not any(error is one for one in seen) and len(seen) < 10:
        seen.append(error)
        yield error
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__


def status_of(error: BaseException) -> Optional[int]:
    for one in causes(error):
        for holder in (one, getattr(one, "response", None)):
            status = getattr(holder, "status_code", None)
            if isinstance(status, int):
                return status
    return None


def retry_after(error: BaseException) -> Optional[float]:
    for one in causes(error):
        headers = getattr(getattr(one, "response", None), "headers", None) or {}
        text = str(headers.get("Retry-After") or headers.get("retry-after") or "")
        if text.isdigit():
            return min(float(text), 600.0)
    return None


def describe(error: BaseException) -> str:
    text = " ".join((getattr(error, "message", None) or str(error) or "").split())
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "as_dict"):
        return plain(value.as_dict())
    if hasattr(value, "item") and callable(value.item):
        return plain(value.item())  # a number of numpy
    return str(value)


def write_json(path: str, value: Any) -> None:
    """Write beside the place first and rename: a file that is there is whole."""
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    beside = f"{path}.{threading.get_ident()}.tmp"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(plain(value), file)
    os.replace(beside, path)


def write_lines(path: str, values: List[Any]) -> None:
    beside = path + ".tmp"
    with open(beside, "w", encoding="utf-8") as file:
        for value in values:
            file.write(json.dumps(plain(value)) + "\n")
    os.replace(beside, path)


def read_json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def path_of(name: str, taken: Dict[str, str]) -> str:
    """Return a relative path for a name of the service that every file system takes; each name gets its own."""
    parts = [safe_part(part) for part in name.replace("\\", "/").split("/") if part not in ("", ".")] or ["%"]
    for at in range(len(parts) - 1):
        while "/".join(parts[: at + 1]).lower() in taken:  # a file has the name of this folder
            parts[at] += "~"
    path, number = "/".join(parts), 2
    while taken.setdefault(path.lower(), name) != name:
        path, number = "{}~{}".format("/".join(parts), number), number + 1
    return path


def safe_part(part: str) -> str:
    found = ODD.sub(lambda match: f"%{ord(match.group()):02X}", part)
    if found.strip(". ") == "" or RESERVED.match(found):
        found = f"%{ord(found[0]):02X}{found[1:]}"
    if found[-1] in ". ":
        found = f"{found[:-1]}%{ord(found[-1]):02X}"
    while len(found.encode("utf-8", "surrogatepass")) > 240:
        found = found[: len(found) // 2] + "~"
    return found


def size_below(folder: str) -> int:
    total = 0
    for place, _folders, names in os.walk(folder):
        total += sum(os.path.getsize(os.path.join(place, name)) for name in names)
    return total


class ExportProgress:
    """What was done so far, for the line of progress."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.listed = self.done = self.skipped = self.files = self.bytes = 0
        self.all_listed = False
        self.problems: List[Tuple[str, str]] = []
        self.began = time.time()
        self.now = ""

    def add(self, **counts: int) -> None:
        with self.lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def problem(self, name: str, why: str) -> None:
        with self.lock:
            self.problems.append((name, why))
        say(f"problem: {name}: {why}")

    def line(self) -> str:
        finished = self.done + self.skipped
        total = "{:,}{}".format(self.listed, "" if self.all_listed else "+")
        text = f"{finished:,} of {total} runs, {self.files:,} files, {amount(self.bytes)}"
        spent = time.time() - self.began
        if self.done and spent > 1:
            rate = self.done / spent
            text += f", {rate:.1f} runs/s"
            if self.all_listed:
                text += f", about {duration((self.listed - finished) / rate)} left"
        return text + (f" ({self.now})" if self.now else "")


def say(text: str) -> None:
    encoding = sys.stderr.encoding or "ascii"
    sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stderr.flush()


def amount(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return "{:.{}f} {}".format(count, 0 if unit == "B" else 1, unit)
        count /= 1000.0
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = int(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


class Export:
    """One export: the workspace, the folder, and what was asked for."""

    def __init__(self, workspace: Any, folder: str, options: argparse.Namespace) -> None:
        self.core = importlib.import_module("azureml.core")
        self.workspace = workspace
        self.folder = folder
        self.options = options
        self.service = Service()
        self.tally = ExportProgress()
        self._experiments: Facts = {}
        self._waiting: collections.deque[Tuple[str, str]] = collections.deque()
        self._more = threading.Condition()
        self._snapshot_locks: Dict[str, threading.Lock] = collections.defaultdict(threading.Lock)

    def run(self) -> int:
        """Do all of it; return the exit code."""
        write_json(os.path.join(self.folder, "workspace.json"), self._workspace())
        threads = [
            threading.Thread(target=self._guard, args=(self._work,), daemon=True) for _ in range(self._threads())
        ]
        threads.append(threading.Thread(target=self._guard, args=(self._list_runs,), daemon=True))
        for thread in threads:
            thread.start()
        try:
            self._guard(self._assets)
            self._watch(threads)
        except KeyboardInterrupt:
            self.service.give_up("stopped")
            self._watch(threads, limit_s=15.0)
        return self._report()

    def _threads(self) -> int:
        return max(1, int(self.options.threads))

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Stopped:
            pass
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.service.give_up("the disk is full")
            else:
                self.tally.problem("export", describe(error))
        except Exception as error:
            self.tally.problem("export", describe(error))

    def _watch(self, threads: List[threading.Thread], limit_s: Optional[float] = None) -> None:
        ends = None if limit_s is None else time.time() + limit_s
        is_terminal = sys.stderr.isatty()
        told = time.time()
        while any(thread.is_alive() for thread in threads) and (ends is None or time.time() < ends):
            for thread in threads:
                thread.join(0.05)
            if time.time() - told >= (2 if is_terminal else 30):
                told = time.time()
                say(self.tally.line())

    def _report(self) -> int:
        problems = [{"name": name, "why": why} for name, why in self.tally.problems]
        try:
            write_lines(os.path.join(self.folder, "problems.jsonl"), problems)
        except OSError as error:
            say(f"problems.jsonl cannot be written: {error.strerror}")
        self.tally.now = ""
        say(self.tally.line())
        if self.service.waits:
            say(f"The service asked to wait, or did not answer, {self.service.waits:,} times.")
        if self.service.stop.is_set():
            say(f"Not finished: {self.service.reason}. Start the same command again: it goes on from here.")
            return 130 if self.service.reason == "stopped" else 1
        if self.tally.problems:
            count = len(self.tally.problems)
            say(f"{count:,} problems, listed in problems.jsonl. Start the same command again for what is missing.")
            return 1
        write_json(os.path.join(self.folder, "done"), {"at": time.time(), "files": self.options.files})
        say(f"Done. Next, where Runyard is installed: runyard import azureml {self.folder}")
        return 0

    def _workspace(self) -> Facts:
        workspace = self.workspace
        names = ("name", "subscription_id", "resource_group", "location", "tags")
        facts: Facts = {name: plain(getattr(workspace, name, None)) for name in names}
        facts.update(format=FORMAT, sdk=str(getattr(self.core, "VERSION", "")))
        return facts

    # Runs

    def _list_runs(self) -> None:
        try:
            experiments = self._list_experiments()
            for experiment in experiments:
                self._experiments[experiment.name] = experiment
            for experiment in experiments:
                self._list_experiment(experiment)
        finally:
            with self._more:
                self.tally.all_listed = True
                self._more.notify_all()

    def _list_experiments(self) -> List[Any]:
        experiments = self.service.call(self._all_experiments)
        wanted = [name.strip() for name in (self.options.experiments or "").split(",") if name.strip()]
        for name in wanted:
            if name not in [experiment.name for experiment in experiments]:
                self.tally.problem("experiment " + name, "there is none of that name")
        experiments = [experiment for experiment in experiments if not wanted or experiment.name in wanted]
        facts = []
        for experiment in experiments:
            archived = getattr(experiment, "archived_time", None)
            tags = getattr(experiment, "tags", None)
            facts.append(
                {"name": experiment.name, "id": getattr(experiment, "id", ""), "tags": tags, "archived": archived}
            )
        write_lines(os.path.join(self.folder, "experiments.jsonl"), facts)
        return experiments  # type: ignore[no-any-return,unused-ignore]

    def _all_experiments(self) -> List[Any]:
        try:
            found = list(self.core.Experiment.list(self.workspace, view_type="All"))
        except TypeError:  # of an early SDK
            found = list(self.workspace.experiments.values())
        return sorted(found, key=lambda experiment: str(experiment.name))

    def _list_experiment(self, experiment: Any) -> None:
        """Put the experiment's runs into the queue. After a page that fails, the list begins again."""
        seen = set()

        def walk() -> None:
            for run in experiment.get_runs(include_children=True):
                if self.service.stop.is_set():
                    raise Stopped()
                if run.id not in seen:
                    seen.add(run.id)
                    self._queue(experiment.name, run)

        try:
            self.service.call(walk)
        except Stopped:
            raise
        except Exception as error:
            self.tally.problem("experiment " + experiment.name, "its runs cannot be listed: " + describe(error))

    def _queue(self, experiment: str, run: Any) -> None:
        self.tally.add(listed=1)
        if not SAFE_NAME.match(run.id):
            self.tally.problem("run " + repr(run.id), "that is no run id")
            return
        mark = read_json(os.path.join(self._run_folder(run.id), "done"))
        if self._is_done(mark):
            self.tally.add(skipped=1, files=mark.get("file_count", 0))
            return
        with self._more:
            self._waiting.append((experiment, run.id))
            self._more.notify()

    def _is_done(self, mark: Any) -> bool:
        """A run that had not ended may have more now; files that were not wanted may be wanted now."""
        if not isinstance(mark, dict) or mark.get("status") not in FINAL:
            return False
        has_files = self.options.files == "none" or mark.get("files") == "all"
        return has_files and (self.options.no_snapshots or bool(mark.get("snapshot")))

    def _run_folder(self, run_id: str) -> str:
        return os.path.join(self.folder, "runs", run_id)

    def _work(self) -> None:
        while True:
            with self._more:
                while not self._waiting and not self.tally.all_listed and not self.service.stop.is_set():
                    self._more.wait(0.2)
                if self.service.stop.is_set() or not self._waiting:
                    return
                experiment, run_id = self._waiting.popleft()
            self.tally.now = experiment
            try:
                self._export_run(experiment, run_id)
                self.tally.add(done=1)
            except Stopped:
                return
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self.tally.problem("run " + run_id, describe(error))
            except Exception as error:
                self.tally.problem("run " + run_id, describe(error))

    def _export_run(self, experiment: str, run_id: str) -> None:
        run = self.service.call(self.core.Run, self._experiments[experiment], run_id)
        folder = self._run_folder(run_id)
        mark = read_json(os.path.join(folder, "done")) or {}
        notes: List[str] = []
        facts = self._facts(run, experiment, notes)
        write_json(os.path.join(folder, "metrics.json"), self._metrics(run, run_id, notes))
        has_snapshot, files, count = bool(mark.get("snapshot")), mark.get("files", "none"), mark.get("file_count", 0)
        if not self.options.no_snapshots:
            self._snapshot(run, facts, notes)
            has_snapshot = True
        if self.options.files == "all":
            count = self._files(run, folder, notes)
            files = "all"
        facts["notes"] = notes
        write_json(os.path.join(folder, "run.json"), facts)
        done = {"status": facts["status"], "files": files, "file_count": count, "snapshot": has_snapshot}
        write_json(os.path.join(folder, "done"), done)

    def _facts(self, run: Any, experiment: str, notes: List[str]) -> Facts:
        base = self.core.Run  # classes for sweeps and pipelines answer some calls in their own ways
        record = plain(getattr(run, "_run_dto", None) or {})
        for name in ("token", "token_expiry_time_utc", "cancel_uri", "complete_uri", "diagnostics_uri"):
            record.pop(name, None)
        try:
            details = dict(self.service.call(base.get_details, run) or {})
        except Stopped:
            raise
        except Exception as error:
            if status_of(error) in RETRIED:
                raise
            details = {}
            notes.append("its details cannot be read: " + describe(error))
        details["logFiles"] = sorted(details.get("logFiles") or {})  # without their signed addresses
        for side in ("inputDatasets", "outputDatasets"):
            details[side] = [self._use_of(one) for one in details.get(side) or []]
        parent = record.get("parent_run_id")
        return {
            "id": run.id,
            "experiment": experiment,
            "number": plain(getattr(run, "number", None)),
            "type": plain(run.type),
            "status": str(details.get("status") or record.get("status") or run.get_status()),
            "display_name": plain(getattr(run, "display_name", None)),
            "description": plain(getattr(run, "description", None)),
            "parent": parent,
            "created": record.get("created_utc"),
            "started": details.get("startTimeUtc") or record.get("start_time_utc"),
            "ended": details.get("endTimeUtc") or record.get("end_time_utc"),
            "tags": plain(self.service.call(base.get_tags, run)),
            "properties": plain(self.service.call(base.get_properties, run)),
            "details": plain(details),
            "record": record,
        }

    def _use_of(self, use: Any) -> Any:
        if not isinstance(use, dict):
            return str(use)
        dataset = use.get("dataset")
        known = {key: plain(value) for key, value in use.items() if key != "dataset"}
        known["dataset"] = {name: plain(getattr(dataset, name, None)) for name in ("id", "name", "version")}
        return known

    def _metrics(self, run: Any, run_id: str, notes: List[str]) -> Facts:
        """Every value with its step and time where the SDK can ask for them, else what `get_metrics` returns."""
        try:
            client = run._client.metrics
            names = self.service.call(client.list_metric_names_for_run_id, run_id)
            return {"samples": {name: self._samples(client, run_id, name) for name in names}}
        except Stopped:
            raise
        except Exception as error:
            if status_of(error) in RETRIED:
                raise
            found = plain(self.service.call(self.core.Run.get_metrics, run))
            if found and not isinstance(error, AttributeError):
                notes.append("its metrics have no times: " + describe(error))
            return {"merged": found}

    def _samples(self, client: Any, run_id: str, name: str) -> Facts:
        found = self.service.call(client.get_metric_dto_for_run_v2, name, run_id=run_id)
        if found is None:
            return {"kind": "", "columns": {}, "rows": []}
        kind = getattr(getattr(found, "properties", None), "ux_metric_type", None)
        rows = [[value.step, plain(value.created_utc), plain(value.data)] for value in found.value or []]
        return {"kind": kind or "", "columns": plain(found.columns or {}), "rows": rows}

    def _snapshot(self, run: Any, facts: Facts, notes: List[str]) -> None:
        """Keep the run's snapshot once, however many runs have it."""
        snapshot_id = str((facts["properties"] or {}).get("ContentSnapshotId") or "")
        if not SAFE_NAME.match(snapshot_id):
            return
        folder = os.path.join(self.folder, "snapshots")
        target = os.path.join(folder, snapshot_id + ".zip")
        with self._snapshot_locks[snapshot_id]:
            if not os.path.exists(target):
                beside = os.path.join(folder, snapshot_id + ".tmp")
                try:
                    path = self.service.call(run.restore_snapshot, snapshot_id=snapshot_id, path=beside)
                    os.replace(path, target)
                except Stopped:
                    raise
                except Exception as error:
                    self._note_missing("its snapshot", error, notes)
                    return
                finally:
                    shutil.rmtree(beside, ignore_errors=True)
        facts["snapshot"] = snapshot_id

    def _files(self, run: Any, folder: str, notes: List[str]) -> int:
        names = sorted(self.service.call(run.get_file_names))
        taken: Dict[str, str] = {}
        listed = []
        for name in names:
            place = path_of(name, taken)
            target = os.path.join(folder, "files", *place.split("/"))
            if not os.path.exists(target):
                try:
                    self._download(run, name, folder, target)
                except Stopped:
                    raise
                except Exception as error:
                    self._note_missing("file " + name, error, notes)
                    continue
            size = os.path.getsize(target)
            self.tally.add(files=1, bytes=size)
            listed.append({"name": name, "path": place, "size": size})
        write_json(os.path.join(folder, "files.json"), listed)
        return len(listed)

    def _download(self, run: Any, name: str, folder: str, target: str) -> None:
        beside = os.path.join(folder, f"file.{threading.get_ident()}.tmp")
        try:
            self.service.call(run.download_file, name, output_file_path=beside)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(beside, target)
        finally:
            if os.path.exists(beside):
                os.remove(beside)

    def _note_missing(self, what: str, error: Exception, notes: List[str]) -> None:
        """Something that the service has lost is a note on the run; anything else is tried again the next time."""
        if status_of(error) in (404, 410):
            notes.append(f"{what} is missing: {describe(error)}")
            return
        raise error

    # What is not a run

    def _assets(self) -> None:
        if self.options.experiments and not self.options.assets:
            return
        for name, work in (
            ("models", self._models),
            ("environments", self._environments),
            ("datasets", self._datasets),
            ("datastores", self._datastores),
        ):
            try:
                work()
            except (Stopped, KeyboardInterrupt):
                raise
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self.tally.problem(name, describe(error))
            except Exception as error:
                self.tally.problem(name, describe(error))

    def _models(self) -> None:
        models = sorted(
            self.service.call(self.core.Model.list, self.workspace), key=lambda one: (one.name, one.version)
        )
        taken: Dict[str, str] = {}
        listed: List[Facts] = []
        for model in models:
            place = f"models/{path_of(model.name, taken)}/{int(model.version)}"
            listed.append(self._model_facts(model, place))
        write_lines(os.path.join(self.folder, "models.jsonl"), listed)
        if self.options.files == "none":
            return
        for model, facts in zip(models, listed):
            folder = os.path.join(self.folder, *facts["folder"].split("/"))
            if os.path.exists(os.path.join(folder, "done")):
                continue
            files = os.path.join(folder, "files")
            try:
                shutil.rmtree(files, ignore_errors=True)
                os.makedirs(files)
                path = self.service.call(model.download, target_dir=files, exist_ok=True)
                base = os.path.relpath(str(path), files).replace(os.sep, "/").split("/")[0]
                self.tally.add(bytes=size_below(files))
                write_json(os.path.join(folder, "done"), {"path": base if base not in (".", "..") else ""})
            except Stopped:
                raise
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self.tally.problem("model {}".format(facts["id"]), describe(error))
            except Exception as error:
                self.tally.problem("model {}".format(facts["id"]), describe(error))

    def _model_facts(self, model: Any, place: str) -> Facts:
        names = (
            "id", "name", "version", "description", "tags", "properties", "created_time", "created_by",
            "model_framework", "model_framework_version", "run_id", "experiment_name", "mime_type", "unpack",
        )  # fmt: skip
        facts: Facts = {name: plain(getattr(model, name, None)) for name in names}
        datasets = getattr(model, "datasets", None) or {}
        if isinstance(datasets, dict):
            facts["datasets"] = [
                [str(use), str(getattr(one, "id", one))] for use, ones in datasets.items() for one in ones or []
            ]
        facts["folder"] = place
        return facts

    def _environments(self) -> None:
        known = self.service.call(self.core.Environment.list, self.workspace)
        listed = []
        for name, latest in sorted(known.items()):
            if name.lower().startswith("azureml-") and not self.options.curated:
                continue
            last = str(latest.version or "1")
            versions = [str(one) for one in range(1, int(last) + 1)] if last.isdigit() else [last]
            for version in versions:
                try:
                    found = latest if version == last else self._environment(name, version)
                    listed.append({"name": name, "version": version, "files": self._definition(found)})
                except Stopped:
                    raise
                except Exception as error:
                    if version == last or status_of(error) in RETRIED:
                        self.tally.problem(f"environment {name}:{version}", describe(error))
        write_lines(os.path.join(self.folder, "environments.jsonl"), listed)

    def _environment(self, name: str, version: str) -> Any:
        return self.service.call(self.core.Environment.get, self.workspace, name, version=version)

    def _definition(self, environment: Any) -> Dict[str, str]:
        """Return the files that describe an environment: its JSON, the conda file, a Dockerfile."""
        folder = os.path.join(self.folder, "environment.tmp")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            environment.save_to_directory(folder, overwrite=True)
            texts = {}
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    texts[name] = file.read()
            texts["azureml_environment.json"] = without_secrets(texts.get("azureml_environment.json", "{}"))
            return texts
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _datasets(self) -> None:
        known = self.service.call(lambda: dict(self.core.Dataset.get_all(self.workspace).items()))
        listed = []
        for name, latest in sorted(known.items()):
            for version in range(1, int(latest.version or 1) + 1):
                try:
                    found = latest
                    if version != latest.version:
                        found = self.service.call(self.core.Dataset.get_by_name, self.workspace, name, version=version)
                    listed.append(self._dataset(found, name, version))
                except Stopped:
                    raise
                except Exception as error:
                    if version == latest.version or status_of(error) in RETRIED:
                        self.tally.problem(f"dataset {name}:{version}", describe(error))
        write_lines(os.path.join(self.folder, "datasets.jsonl"), listed)

    def _dataset(self, dataset: Any, name: str, version: int) -> Facts:
        facts: Facts = {"name": name, "version": version, "kind": type(dataset).__name__}
        for field in ("id", "description", "tags", "data_changed_time"):
            try:
                facts[field] = plain(getattr(dataset, field, None))
            except Exception:
                facts[field] = None
        text = str(dataset)  # the class, then JSON with source, definition and registration
        start = text.find("{")
        try:
            facts["definition"] = json.loads(text[start:]) if start >= 0 else None
        except ValueError:
            facts["definition"] = None
        if facts["definition"] is None:
            facts["text"] = text[:100000]
        raw = getattr(dataset, "_definition", None)
        if isinstance(raw, str):
            facts["steps"] = raw
        return facts

    def _datastores(self) -> None:
        listed = []
        for name, store in sorted(self.service.call(lambda: dict(self.workspace.datastores.items())).items()):
            fields = ("datastore_type", "account_name", "container_name", "endpoint", "protocol")
            listed.append(dict({field: plain(getattr(store, field, None)) for field in fields}, name=name))
        write_lines(os.path.join(self.folder, "datastores.jsonl"), listed)


def without_secrets(text: str) -> str:
    """Return an environment's JSON without the password of its registry."""
    try:
        document = json.loads(text)
    except ValueError:
        return "{}"
    docker = document.get("docker") or {}
    for name in ("baseImageRegistry", "registry"):
        if isinstance(docker.get(name), dict):
            docker[name].pop("password", None)
    return json.dumps(document)


def open_workspace(options: argparse.Namespace) -> Any:
    core = importlib.import_module("azureml.core")
    if options.workspace:
        return core.Workspace.get(
            options.workspace, subscription_id=options.subscription, resource_group=options.resource_group
        )
    return core.Workspace.from_config(options.config)


def parse(arguments: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Export an Azure ML workspace (SDK v1) into a folder.")
    parser.add_argument("folder", metavar="FOLDER", help="where to write; the same one goes on with an export")
    parser.add_argument("--config", metavar="PATH", help="the workspace's config.json [default: searched from here up]")
    parser.add_argument("--workspace", metavar="NAME", help="the workspace, when there is no config.json")
    parser.add_argument("--subscription", metavar="ID")
    parser.add_argument("--resource-group", metavar="NAME")
    parser.add_argument("--experiments", metavar="A,B", help="only these, and no models, environments and datasets")
    parser.add_argument(
        "--assets", action="store_true", help="models, environments and datasets with --experiments too"
    )
    parser.add_argument("--files", choices=("all", "none"), default="all", help="none: files can follow by a later run")
    parser.add_argument("--no-snapshots", action="store_true", help="leave the runs' source folders out")
    parser.add_argument("--curated", action="store_true", help="Azure's own environments too")
    parser.add_argument("--threads", metavar="N", type=int, default=8, help="calls at a time [default: 8]")
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> int:
    options = parse(arguments)
    try:
        importlib.import_module("azureml.core")
    except ImportError as error:
        say(f"error: azureml-core cannot be imported here: {error}")
        say("hint: start this script with the Python in which you use Azure ML, or: pip install azureml-core")
        return 1
    try:
        workspace = open_workspace(options)
    except Exception as error:
        say(f"error: the workspace cannot be opened: {describe(error)}")
        say("hint: --config PATH names its config.json; or give --workspace, --subscription and --resource-group")
        return 1
    try:
        os.makedirs(os.path.join(options.folder, "runs"), exist_ok=True)
        os.makedirs(os.path.join(options.folder, "snapshots"), exist_ok=True)
    except OSError as error:
        say(f"error: {options.folder} cannot be written to: {error.strerror}")
        return 1
    say(f"Exporting workspace {workspace.name} into {options.folder} …")
    return Export(workspace, options.folder, options).run()


if __name__ == "__main__":
    sys.exit(main())
