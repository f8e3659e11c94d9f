"""What a Ray cluster's tables say about our jobs, in our words. Pure: the bridge looked, here it is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.compute.base import Cause, EngineNode, JobHandle, JobReport, JobState

PREFIX = "runyard-"
ALIVE, DEAD = "ALIVE", "DEAD"
_NODE_DIED, _KILLED = "NODE_DIED", "RAY_KILL"
_BY_THE_AUTOSCALER = 3  # AUTOSCALER_DRAIN_PREEMPTED among Ray's reasons for a node's death
_MOST_NAMED = 4
_GIB = 1 << 30
_ORDER = ("CPU", "GPU", "memory")  # Ray's own tables have none

View = Mapping[str, Any]  # what `look` of bridge.py answers
Row = Mapping[str, Any]


def job_name(handle: JobHandle) -> str:
    return f"{PREFIX}{handle.run_id}-{handle.attempt}"


def read_reports(handles: Sequence[JobHandle], view: View) -> dict[JobHandle, JobReport]:
    actors: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in sorted(view["actors"], key=lambda row: (row["state"] != DEAD, row["started"])):
        actors[row["name"].rpartition("-")[0]][row["name"]] = row  # the last of a name is the one that counts
    groups = {group["name"]: group for group in view["groups"]}
    return {
        handle: _report(list(actors[name].values()), groups.get(name), view["nodes"])
        for handle in handles
        for name in (job_name(handle),)
    }


def read_nodes(view: View) -> list[EngineNode]:
    """Return the living, and of the dead those that did not come back under the same name."""
    living = {node["name"] for node in view["nodes"] if node["is_alive"]}
    return [
        EngineNode(
            name=node["name"],
            address=node["address"],
            state="alive" if node["is_alive"] else "dead",
            cpus=node["total"].get("CPU", 0),
            gpus=node["total"].get("GPU", 0),
            memory_bytes=int(node["total"].get("memory", 0)),
            note="" if node["is_alive"] else node["message"],
        )
        for node in view["nodes"]
        if node["is_alive"] or node["name"] not in living
    ]


def explain_wait(needs: Mapping[str, float], count: int, nodes: Sequence[Row]) -> str:
    """Return why Ray has not placed `count` nodes with these resources."""
    living = [node for node in nodes if node["is_alive"]]
    wish = _amounts(needs)
    for name, amount in needs.items():
        most = max((node["total"].get(name, 0) for node in living), default=0)
        if most < amount:
            has = f"the most that one has is {_amount(name, most)}" if most else f"no node has {_noun(name)}"
            return f"needs {wish} on one node; {has}"
    able = [node for node in living if _has(node["total"], needs)]
    if len(able) < count:
        return f"needs {count} nodes with {wish} each; the cluster has {len(able)} such"
    where = f"on {count} nodes" if count > 1 else "on one node"
    free = ", ".join(
        f"{node['name']} {_amounts({key: node['free'].get(key, 0) for key in needs})}" for node in able[:_MOST_NAMED]
    )
    more = f", and {len(able) - _MOST_NAMED} more nodes" if len(able) > _MOST_NAMED else ""
    return f"needs {wish} {where}; free now: {free}{more}"


def _report(actors: Sequence[Row], group: Row | None, nodes: Sequence[Row]) -> JobReport:
    lost = _find_lost(actors, nodes)
    if lost is not None:
        return lost
    dead = [row for row in actors if row["state"] == DEAD]
    if dead and len(dead) == len(actors):
        return _gone(dead)
    waiting = [row for row in actors if row["state"] not in (ALIVE, DEAD)]
    if waiting or (group is not None and not actors):
        return JobReport(JobState.WAITING, _why_waiting(waiting, group, nodes))
    if actors:
        return JobReport(JobState.ALIVE)
    return JobReport(JobState.GONE, "Ray knows no actor of this job")


def _why_waiting(waiting: Sequence[Row], group: Row | None, nodes: Sequence[Row]) -> str:
    if group is not None:
        is_placed = group["state"] == "CREATED"
        return "Ray starts its workers" if is_placed else explain_wait(group["needs"], group["count"], nodes)
    needs = waiting[0]["needs"]
    if any(node["is_alive"] and _has(node["free"], needs) for node in nodes):
        return "Ray starts its worker"
    return explain_wait(needs, 1, nodes)


def _find_lost(actors: Sequence[Row], nodes: Sequence[Row]) -> JobReport | None:
    """A job that has lost one of its nodes cannot go on as it was placed."""
    dead = {node["id"]: node for node in nodes if not node["is_alive"]}
    for row in actors:
        node = dead.get(row["node"])
        is_on_it = row.get("reason") == _NODE_DIED or (node is not None and row["state"] == ALIVE)
        if is_on_it and not row.get("note"):
            name = f"{node['name']} ({node['address']})" if node is not None else "of one of its actors"
            why = (node["message"] if node is not None else "") or row.get("message", "")
            is_preempted = node is not None and node["death"] == _BY_THE_AUTOSCALER
            cause = Cause.PREEMPTED if is_preempted else Cause.NODE_LOST
            return JobReport(JobState.GONE, f"Ray lost the node {name}: {_first_line(why)}", cause)
    return None


def _gone(dead: Sequence[Row]) -> JobReport:
    failed = next((row["note"] for row in dead if row.get("note") and row["note"]["code"] != 0), None)
    if failed is not None:
        words = failed["tail"].strip() or "it wrote nothing"
        return JobReport(JobState.GONE, f"its process ended with {_code(failed['code'])}: {words}", Cause.ENDED)
    if all(row.get("note") for row in dead):
        return JobReport(JobState.GONE, "", Cause.ENDED)
    row = next(row for row in dead if not row.get("note"))
    reason, message = row.get("reason", ""), row.get("message", "")
    if reason == _KILLED:
        return JobReport(JobState.GONE, "it was taken out of Ray", Cause.CANCELED)
    if reason == "creation_task_failure_context":
        return JobReport(JobState.GONE, f"it could not be started there: {_last_line(message)}", Cause.REFUSED)
    return JobReport(JobState.GONE, _first_line(message))


def _has(found: Mapping[str, float], needs: Mapping[str, float]) -> bool:
    return all(found.get(name, 0) >= amount for name, amount in needs.items())


def _amounts(resources: Mapping[str, float]) -> str:
    ordered = sorted(resources, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return ", ".join(_amount(name, resources[name]) for name in ordered) or "nothing"


def _amount(name: str, amount: float) -> str:
    return f"{amount / _GIB:.1f} GiB memory" if name == "memory" else f"{amount:g} {name}"


def _noun(name: str) -> str:
    return "a GPU" if name == "GPU" else f"any {name}"


def _code(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300]
