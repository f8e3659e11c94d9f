"""A hang in words: the error of the run, and the file with the stacks of all its ranks."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Sequence

from runyard.core.specs import JobSpec
from runyard.supervisor.diagnosis.causes import HANG
from runyard.supervisor.diagnosis.diagnosis import facts_of, name_ranks, place_of
from runyard.supervisor.diagnosis.hang_judge import Code, Judgement, RankView, describe_view
from runyard.supervisor.diagnosis.hang_probe import Probe
from runyard.supervisor.diagnosis.rank_ends import DEFAULT_LOG, process_of

STACKS_FILE = "diagnosis-stacks.txt"


class HangReport:
    def __init__(self, job: JobSpec, launch: Mapping[str, Any], code: Code, views: Sequence[RankView]) -> None:
        self._job = job
        self._launch = launch
        self._code = code
        self._views = views
        self._is_one = len([one for one in launch.get("processes", ()) if one["rank"] >= 0]) < 2

    def stacks(self, probe: Probe) -> str:
        """Return what `diagnosis-stacks.txt` holds."""
        parts = []
        for view in self._views:
            silent = f"silent for {view.silent_s:.0f} s, {view.cpu_percent:.0f} % CPU"
            parts.append(f"{self._name(view.rank)}, {silent}: {describe_view(view, self._code)}\n")
            for entry in probe.ranks.get(view.rank, ()):
                stacks = probe.stacks.get(entry.pid, "no Python stacks\n")
                parts.append(f"process {entry.pid}, state {entry.state}\n{stacks}\n")
        return "\n".join(parts)

    def error(self, found: Judgement, *, limit_s: float, stacks: str) -> Dict[str, Any]:
        process = process_of(self._launch, found.first)
        details = {
            **facts_of(found.first, process, self._job),
            "kind": HANG,
            "log": str(process.get("log") or DEFAULT_LOG),
            "evidence": self._evidence(found, stacks),
            "consequences": [self._consequence(rank) for rank in found.waiting],
            "stacks": STACKS_FILE,
            "silent_s": {str(view.rank): round(view.silent_s, 1) for view in self._views},
        }
        return {"code": "RunHangs", "message": "\n".join(self._message(found, limit_s)), "details": details}

    def _message(self, found: Judgement, limit_s: float) -> List[str]:
        silent = f"Nothing was written to a log and no metric was logged for {limit_s:g} s."
        who = "The program" if self._is_one else f"{self._name(found.first)} holds the others up"
        lines = [f"User program seems to hang. {silent}", f"{who}: {found.why}."]
        if found.waiting and not self._is_one:
            lines.append(self._about_waiting(found.waiting))
        return [*lines, f"The stacks of all ranks are in the run's file {STACKS_FILE}."]

    def _about_waiting(self, waiting: Sequence[int]) -> str:
        one = next(view for view in self._views if view.rank == waiting[0])
        frame = self._code.own_frame(one.stacks[-1])
        line = f", `{self._code.line_of(frame)}`" if frame else ""
        place = f" in {os.path.basename(frame.file)} line {frame.line}{line}" if frame else ""
        return f"{name_ranks(waiting)} {'waits' if len(waiting) == 1 else 'wait'}{place}."

    def _evidence(self, found: Judgement, stacks: str) -> List[Dict[str, Any]]:
        """Return the lines of the file that show where the first one is."""
        lines = stacks.splitlines()
        head = next(
            (index for index, line in enumerate(lines) if line.startswith(f"{self._name(found.first)}, ")), None
        )
        if head is None:
            return []
        chosen = [head]
        view = next((view for view in self._views if view.rank == found.first), None)
        frame = self._code.own_frame(view.stacks[-1]) if view and view.stacks else None
        if frame is not None:
            text = f'"{frame.file}", line {frame.line} in '
            chosen += [index for index in range(head, len(lines)) if text in lines[index]][:1]
        return [{"file": STACKS_FILE, "line": index + 1, "text": lines[index]} for index in chosen]

    def _consequence(self, rank: int) -> Dict[str, Any]:
        return {**facts_of(rank, process_of(self._launch, rank), self._job), "why": "waits for another rank"}

    def _name(self, rank: int) -> str:
        return f"Rank {rank}{place_of(facts_of(rank, process_of(self._launch, rank), self._job))}"
