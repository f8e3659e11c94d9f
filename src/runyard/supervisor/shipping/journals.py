"""All journals of a run: which segments grew, which bytes may be shipped, and what must be uploaded before."""

from __future__ import annotations

import logging
import os
from itertools import chain
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.core.formats import journal
from runyard.core.machine.disk import OVERFLOW
from runyard.core.records import Mark
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.refusals import release
from runyard.supervisor.shipping.segments import (
    ChildRunLedger,
    Key,
    Segment,
    find_orphans,
    is_unreadable,
    iter_segments,
    read_part,
    recall,
)
from runyard.supervisor.shipping.uploads import ExplicitUploads

logger = logging.getLogger(__name__)

PART_BYTES = 8 << 20
LEAST_BYTES = 2 << 20  # least share of one segment in a request; more than the longest record
DAMAGED = "system_logs/damaged_journals.txt"
MOST_DAMAGE = 4096  # most bytes of one damaged place that the file keeps
MOST_HELD = 256  # files kept open, so that a removed file can still be read

Frame = Tuple[Mapping[str, object], bytes]


class Part(NamedTuple):
    """The part of one segment that goes into a request: the bytes [offset, end) and the side files that they name."""

    segment: Segment
    end: int
    frames: List[Frame]
    size: int


class Journals:
    """The segments of a run folder. `Shipper` changes them under its lock; `behind`, `marks` and `unsynced` need none.

    A FILE record waits until its file is uploaded, and the segments of a child run wait until the server has the CHILD
    record.
    """

    def __init__(
        self,
        folder: RunFolder,
        run_id: str,
        *,
        uploads: ExplicitUploads,
        seen: ChildRunLedger,
        warn: Callable[[str, str], None],
    ) -> None:
        self._folder = folder
        self._run_id = run_id
        self._uploads = uploads
        self._seen = seen
        self._warn = warn
        self._segments: Dict[Key, Segment] = {}
        self._children: Dict[Key, Dict[int, journal.LongRecord]] = {}  # sent CHILD records, by their end
        self._has_new_child = False
        self._held: Dict[Key, Segment] = {}
        self._has_looked = False

    def look(self) -> None:
        """Scan the journal folders for new, grown, cut and removed segments. Repeated before every request."""
        self._look_for_orphans()
        missing = dict(self._segments)
        folders = (self._folder.at("journal"), self._folder.at(OVERFLOW, "journal"))  # the second on a full disk
        for found in chain.from_iterable(map(iter_segments, folders)):
            segment = self._segments.get(found.key)
            if segment is None:
                segment = self._segments[found.key] = found
                recall(found)
            missing.pop(found.key, None)
            self._look_at(segment)
        for segment in missing.values():
            if segment.fd >= 0:
                self._look_at(segment)
            else:
                self._lost(segment)

    def _look_at(self, segment: Segment) -> None:
        was_removed = segment.is_removed
        try:
            self._hold(segment)
            segment.look()
        except OSError as error:
            logger.debug("%s: %s", segment.name, error)
        if segment.is_removed and not was_removed:
            self._warn(
                "journal", f"The program removed {segment.name}. It is still open here: what it holds is stored."
            )
        if segment.cut is not None:
            self._note_cut(segment, *segment.cut)
            segment.cut = None

    def _hold(self, segment: Segment) -> None:
        """Keep the file open; when too many are open, close one that has nothing left to ship."""
        if segment.fd >= 0 or segment.is_given_up or segment.is_removed:
            return
        if len(self._held) >= MOST_HELD:
            idle = next((one for one in self._held.values() if not one.is_behind and not one.is_removed), None)
            if idle is None:
                return
            self._held.pop(idle.key).let_go()
        if segment.hold():
            self._held[segment.key] = segment

    def _look_for_orphans(self) -> None:
        if self._has_looked:
            return
        self._has_looked = True
        for name in find_orphans(self._folder.at("journal")):
            self._warn("journal", f"The program removed {name}. What it held beyond what was stored before is lost.")

    def _note_cut(self, segment: Segment, before: int, after: int) -> None:
        lost = before - max(after, min(before, segment.course.position_of(segment.offset)))
        what = f"at least {lost} bytes of records are lost" if lost else "what it held before was stored"
        self._warn("journal", f"The program cut {segment.name} from {before} to {after} bytes: {what}.")

    def behind(self) -> List[Segment]:
        """Return the segments with something to ship, those with the lowest offset first, so that none starves.

        The segments of a child run wait until the server has the record that made it.
        """
        behind = sorted((one for one in list(self._segments.values()) if one.is_behind), key=lambda one: one.offset)
        return [segment for segment in behind if self._is_known(segment)] or behind

    def unsynced(self) -> List[Segment]:
        """Return the segments with bytes that may be only in this machine's page cache. The thread `disk` calls it."""
        return [segment for segment in list(self._segments.values()) if segment.offset < segment.size]

    def is_foreign(self, segment: Segment) -> bool:
        """Return whether the segment belongs to another run, such as a child run."""
        return self._run_of(segment) != self._run_id

    def took(self, marks: Sequence[Mark]) -> None:
        """Take the server's marks: what is stored of each segment."""
        for mark in marks:
            segment = self._segments.get((mark.writer, mark.segment))
            if segment is not None:
                self._note_children(segment, mark.offset)
                segment.moved(mark.offset)

    def marks(self) -> List[Mark]:
        """Return how far this run's own segments are stored."""
        own = [segment for segment in self._segments.values() if segment.offset and not self.is_foreign(segment)]
        return [Mark(segment.writer, segment.number, segment.offset) for segment in own]

    def refused(self) -> List[Segment]:
        """Return the segments of which the server refuses the rest."""
        return [segment for segment in self._segments.values() if segment.refusal]

    def release_refused(self) -> None:
        """Let single records that were refused be shipped again, as segments of their own."""
        release(self._folder.at("journal"))

    def take_new_child(self) -> bool:
        """Return whether the server got to know a child run since the last call: its journals may be shipped now."""
        found, self._has_new_child = self._has_new_child, False
        return found

    def forget(self) -> None:
        """Forget how far segments are stored; the server's next answer says it."""
        for segment in self._segments.values():
            segment.offset, segment.end = 0, None

    def warn_of_tails(self) -> None:
        """At the run's end, warn about segments that end in the middle of a record.

        A torn tail is normal where its writer went on in a next segment.
        """
        last = {segment.writer: segment.number for segment in self._segments.values()}
        for segment in self._segments.values():
            left = segment.size - segment.offset
            if segment.is_given_up or segment.refusal or segment.rewound_ns is not None:
                continue
            if left > 0 and (segment.number == last[segment.writer] or not self._is_torn(segment, left)):
                self._keep_damaged(segment, segment.course.position_of(segment.offset), left)
                self._warn("journal", f"The last {left} bytes of {segment.name} are no whole record and were left out.")

    def part(self, segment: Segment, *, most_bytes: int = PART_BYTES) -> Part:
        """Return what can be shipped now: whole records up to `most_bytes`, but at least one record."""
        try:
            if segment.rewound_ns is not None and not self._restart(segment):
                return Part(segment, segment.offset, [], 0)
            data = segment.read(max(most_bytes, LEAST_BYTES))
        except OSError as error:
            self._unread(segment, error)
            return Part(segment, segment.offset, [], 0)
        end, sides, is_cut = self._scan(segment, data, most_bytes)
        left = segment.offset + len(data) - end
        is_all = segment.offset + len(data) >= segment.size
        if left and not is_cut and (is_all or left >= LEAST_BYTES // 2 + journal.CELL):
            mended = self._mend(segment, end)
            end, is_all = (end, is_all) if mended is None else (mended, False)
        if not is_cut and is_all:
            segment.end = end
        if end == segment.offset:
            return Part(segment, end, [], 0)
        head = {"kind": "journal", "writer": segment.writer, "segment": segment.number, "offset": segment.offset}
        if self.is_foreign(segment):
            head["run"] = segment.header["run"]
        frames = [*sides, (head, data[: end - segment.offset])]
        return Part(segment, end, frames, sum(len(body) for _, body in frames))

    def _mend(self, segment: Segment, end: int) -> Optional[int]:
        """Go on with the records behind damage at `end`: only the bytes in between are lost.

        Returns where the damage begins, None when no record follows.
        """
        from runyard.supervisor.shipping.salvage import bridge  # rarely needed

        try:
            gap = bridge(segment, end, header=self._known_header(segment))
        except OSError as error:
            logger.debug("%s: %s", segment.name, error)
            return None
        if gap is None:
            return None
        what = f"{gap.size} bytes of {segment.name} from byte {gap.position} on are damaged and were left out"
        self._keep_damaged(segment, gap.position, gap.size)
        names = f" Metrics whose names were lost there: {', '.join(gap.unnamed)}." if gap.unnamed else ""
        self._warn("journal", f"{what}; the records behind them are stored.{names}")
        return gap.offset

    def _is_torn(self, segment: Segment, left: int) -> bool:
        """Return whether the tail is the beginning of one record, as a full disk leaves it."""
        try:
            tail = segment.read_from(segment.offset, journal.CELL)
        except OSError:
            return False
        return left < journal.CELL or journal.is_beginning(tail, left)

    def _keep_damaged(self, segment: Segment, position: int, size: int) -> None:
        """Copy the damaged bytes into a log of the run, because the file is removed with the run folder."""
        try:
            data = segment.read_file(position, min(size, MOST_DAMAGE))
            with open(self._folder.at(DAMAGED), "a", encoding="ascii") as file:
                file.write(f"{segment.name}, {size} bytes from {position} on, the first {len(data)}: {data.hex()}\n")
        except OSError as error:
            logger.debug("%s: %s", DAMAGED, error)

    def _restart(self, segment: Segment) -> bool:
        """Find what was written since the file was cut below what is stored; False when there is nothing."""
        from runyard.supervisor.shipping.salvage import restart

        if restart(segment):
            return True
        segment.end = segment.offset
        return False

    def _known_header(self, segment: Segment) -> journal.Payload:
        """Return the segment's HEADER, or one made from the writer's other segments: a writer records one run."""
        of_writer = [one.header for one in self._segments.values() if one.writer == segment.writer and one.header]
        known = segment.header or (of_writer[0] if of_writer else {"run": self._run_id})
        return {**known, "writer": segment.writer, "segment": segment.number}

    def _scan(self, segment: Segment, data: bytes, most_bytes: int) -> Tuple[int, List[Frame], bool]:
        """Return where the shippable bytes end, their side files, and whether more whole records may follow."""
        end = segment.offset
        last = segment.offset + most_bytes
        sides: List[Frame] = []
        is_blocked = False
        for part in journal.iter_parts(data, base=segment.offset):
            if isinstance(part, journal.LongRecord):
                is_blocked = not self._note(segment, part, sides, is_blocked) or is_blocked
            if not is_blocked:
                end = (
                    part.end
                    if isinstance(part, journal.LongRecord)
                    else max(min(part.end, last), part.offset + journal.CELL)
                )
            if part.end >= last:
                return end, sides, True
        return end, sides, is_blocked

    def _note(self, segment: Segment, record: journal.LongRecord, sides: List[Frame], is_blocked: bool) -> bool:
        """Act on a record that needs more than shipping; False when it must not be shipped yet."""
        if record.kind == journal.FILE:  # also behind a blocked record: the upload can begin
            return self._uploads.is_done(segment, record)
        if is_blocked:
            return True
        if record.kind == journal.SIDE:
            side = self._side(segment, record.payload)
            if not side:  # the server refuses the record without its file
                segment.skipped.append((record.offset, record.end))
                return False
            sides += side
        elif record.kind == journal.CHILD:
            self._children.setdefault(segment.key, {})[record.end] = record
        elif record.kind == journal.END:
            self._seen.note(self._run_of(segment), record)
        return True

    def _note_children(self, segment: Segment, offset: int) -> None:
        """Note the child runs whose records are stored, before the offset is: a kill in between must lose none."""
        made = self._children.get(segment.key, {})
        for end in sorted(end for end in made if end <= offset):
            self._seen.note(self._run_of(segment), made.pop(end))
            self._has_new_child = True

    def _is_known(self, segment: Segment) -> bool:
        return not self.is_foreign(segment) or self._seen.is_child(self._run_of(segment))

    def _run_of(self, segment: Segment) -> str:
        return str(segment.header.get("run") or self._run_id)

    def _side(self, segment: Segment, payload: journal.Payload) -> List[Frame]:
        name = str(payload.get("file", ""))
        try:
            if "/" in name or not name.endswith(".side"):
                raise FileNotFoundError(name)
            length = payload.get("length")
            most = length + 1 if isinstance(length, int) and length > 0 else 1
            data = read_part(os.path.join(os.path.dirname(segment.path), name), 0, most)
        except (OSError, OverflowError, MemoryError):
            self._warn("journal", f"The side file {name[:100]!r} of a record is missing; the record is lost.")
            return []
        return [({"kind": "side", "writer": segment.writer, "segment": segment.number, "file": name}, data)]

    def _unread(self, segment: Segment, error: OSError) -> None:
        logger.debug("%s: %s", segment.name, error)
        if is_unreadable(error):
            segment.is_given_up = True
            self._warn("journal", f"{segment.name} cannot be read: {error.strerror}. Its records are not stored.")

    def _lost(self, segment: Segment) -> None:
        if segment.is_behind:
            left = segment.size - segment.offset
            what = f"The program removed {segment.name} after byte {segment.offset} was stored"
            self._warn("journal", f"{what}: at least {left} bytes of records are lost.")
        segment.size = segment.end = segment.offset
