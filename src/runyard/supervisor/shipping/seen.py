"""What passed through the journals that the end of a run depends on: children made and ends reported."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from runyard.core.formats import journal
from runyard.supervisor.run_folder import RunFolder


class SeenRuns:
    """Kept in `seen.json`, because a restarted supervisor does not read again what was shipped."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        known = folder.read_object("seen.json")
        self._children: List[str] = list(known.get("children", ()))
        self._ends: Dict[str, Dict[str, Any]] = dict(known.get("ends", {}))

    def note(self, run_id: str, record: journal.LongRecord) -> None:
        """Take a CHILD or END record of the run `run_id`."""
        child = str(record.payload.get("run_id", ""))
        if record.kind == journal.CHILD and child not in self._children:
            self._children.append(child)
        elif record.kind == journal.END and run_id not in self._ends:
            self._ends[run_id] = record.payload
        else:
            return
        self._folder.write("seen.json", {"children": self._children, "ends": self._ends})

    def is_child(self, run_id: str) -> bool:
        """Whether the server has the record that made the run."""
        return run_id in self._children

    def find_end(self, run_id: str) -> Optional[Dict[str, Any]]:
        """Return the END record's payload of a run that said itself that it is over."""
        return self._ends.get(run_id)

    def open_children(self) -> List[str]:
        """Return children that nobody ended, newest first."""
        return [child for child in reversed(self._children) if child not in self._ends]
