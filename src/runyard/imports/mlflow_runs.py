"""What every MLflow source shares: how its words become ours, and where artifacts may be read from."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from runyard.core.formats.run_inputs import OLD_DATASETS, dataset_property, read_dataset
from runyard.core.names import RUN_ID
from runyard.imports.folder import is_inside, list_files, path_of_uri
from runyard.imports.records import FAILED, FINISHED, KILLED, MS, UNFINISHED, ImportedRun, SourceFile

TYPE = "mlflow"  # such runs can be gone on with through MLflow's own clients
# RunStatus in MLflow: names, and their numbers in file stores.
STATUSES = {
    "FINISHED": FINISHED, "3": FINISHED, "FAILED": FAILED, "4": FAILED, "KILLED": KILLED, "5": KILLED,
    "RUNNING": UNFINISHED, "1": UNFINISHED, "SCHEDULED": UNFINISHED, "2": UNFINISHED,
}  # fmt: skip
NAME, NOTE, PARENT, USER = "mlflow.runName", "mlflow.note.content", "mlflow.parentRunId", "mlflow.user"
_FIELDS = (NAME, NOTE, PARENT, USER)  # tags that are fields of our runs


def make_run(
    *,
    run_id: str,
    experiment: str,
    status: object,
    start_ms: object,
    end_ms: object,
    name: object = None,
    user: object = None,
    is_deleted: bool = False,
    tags: Mapping[str, str],
    parameters: Mapping[str, str],
) -> ImportedRun:
    """Return a run of MLflow's fields. Raises ValueError for an id that no run can have."""
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise ValueError(f"{str(run_id)[:100]!r} is no run id")
    started = _time(start_ms)
    state = STATUSES.get(str(status), UNFINISHED)
    return ImportedRun(
        id=run_id,
        experiment=experiment,
        created_ns=started or 0,
        started_ns=started,
        ended_ns=_time(end_ms),
        status=state,
        name=str(tags.get(NAME) or name or ""),
        description=tags.get(NOTE, ""),
        parent_id=parent_of(tags),
        user=str(tags.get(USER) or user or ""),
        type=TYPE,
        archived=is_deleted,
        tags={key: value for key, value in tags.items() if key not in _FIELDS},
        parameters=dict(parameters),
    )


def parent_of(tags: Mapping[str, str]) -> Optional[str]:
    parent = tags.get(PARENT)
    return parent if isinstance(parent, str) and RUN_ID.fullmatch(parent) else None


def note_datasets(run: ImportedRun, datasets: Sequence[Mapping[str, Any]]) -> None:
    """Keep the datasets that a run names as its inputs, as `mlflow.log_input` does."""
    others = []
    for one in datasets:
        found = read_dataset(one)
        if found is None:
            others.append(dict(one))
        else:
            key, text = dataset_property(found)
            run.properties[key] = text
    if others:
        run.properties[OLD_DATASETS] = json.dumps(others, sort_keys=True)


def _time(value: object) -> Optional[int]:
    """Return ns of a time in ms; None for none and for what is no time."""
    try:
        ms = int(value)  # type: ignore[call-overload]  # whatever the source holds
    except (TypeError, ValueError, OverflowError):
        return None
    return ms * MS if 0 < ms < 1 << 43 else None


def step_of(value: object) -> int:
    """Return a step as 64 bits hold it. Raises ValueError."""
    step = int(value)  # type: ignore[call-overload]  # whatever the source holds
    if not -(1 << 63) <= step < 1 << 63:
        raise ValueError(f"{value!r} is no step")
    return int(step)


def time_of(value: object) -> int:
    """Return ns of a point's time in ms. Raises ValueError."""
    ms = int(value)  # type: ignore[call-overload]  # whatever the source holds
    if not -(1 << 43) < ms < 1 << 43:
        raise ValueError(f"{value!r} is no time")
    return int(ms) * MS


class ArtifactPlaces:
    """Finds the folder of an artifact URI on this machine, inside the given roots and nowhere else."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = [os.path.realpath(root) for root in roots]

    def find(self, uri: str) -> Optional[str]:
        """Return the folder, None when it is in none of the roots; a store that was moved is looked for by its end."""
        for candidate in self._candidates(uri):
            real = os.path.realpath(candidate)
            if os.path.isdir(real) and any(is_inside(root, real) for root in self._roots):
                return real
        return None

    def _candidates(self, uri: str) -> List[str]:
        path = path_of_uri(uri)
        if uri.startswith("mlflow-artifacts:"):
            below = uri[len("mlflow-artifacts:") :].lstrip("/")
            return [os.path.join(root, *sub, below) for root in self._roots for sub in ((), ("mlartifacts",))]
        if path is None:
            return []
        parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
        ends = ["/".join(parts[-count:]) for count in range(2, min(len(parts), 6) + 1)]
        return [path] + [os.path.join(root, end) for root in self._roots for end in reversed(ends)]


def find_files(places: ArtifactPlaces, uri: str, note: Callable[[str], None], *, prefix: str = "") -> List[SourceFile]:
    """Return the files at an artifact URI; where they cannot be reached a note says so."""
    folder = places.find(uri)
    if folder is None:
        path = path_of_uri(uri)
        if uri and not uri.startswith("mlflow-artifacts:") and (path is None or os.path.exists(path)):
            note(f"its artifacts lie at {uri[:200]}, outside of what is imported (`--artifacts FOLDER` names more)")
        return []
    return list_files(folder, folder, note, prefix=prefix)


def tags_of(rows: Any) -> Dict[str, str]:
    """Return key → value of pairs; of what is no text, its text."""
    return {str(key): "" if value is None else str(value) for key, value in rows}
