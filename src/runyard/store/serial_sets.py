"""Sets and orders of runs' serials, as a flag per serial: joined by and, or, not within microseconds. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress

Serials = Sequence[int]


class SerialSet:
    """Which of the serials 0 to `size` - 1 are in the set."""

    __slots__ = ("_bytes", "size")

    def __init__(self, size: int, flags: bytes | bytearray | None = None) -> None:
        self.size = size
        self._bytes = bytes(size) if flags is None else flags

    @classmethod
    def of(cls, size: int, *several: Serials) -> SerialSet:
        """Return the set of those serials that are below `size`."""
        flags = bytearray(size)
        for serials in several:
            fits = not serials or max(serials) < size
            for serial in serials if fits else [serial for serial in serials if serial < size]:
                flags[serial] = 1
        return cls(size, flags)

    def __and__(self, other: SerialSet) -> SerialSet:
        return self._joined(int(self) & int(other))

    def __or__(self, other: SerialSet) -> SerialSet:
        return self._joined(int(self) | int(other))

    def __invert__(self) -> SerialSet:
        return self._joined(int(self) ^ int.from_bytes(b"\1" * self.size, "little"))

    def __int__(self) -> int:
        return int.from_bytes(self._bytes, "little")

    def __len__(self) -> int:
        """How many serials it knows of, in the set or not."""
        return self.size

    def __contains__(self, serial: int) -> bool:
        return 0 <= serial < self.size and bool(self._bytes[serial])

    def of_each(self, serials: Serials) -> Iterator[int]:
        """Yield 1 for each of `serials` that is in the set, else 0."""
        beyond = max(serials, default=0) + 1 - self.size
        flags = self._bytes if beyond <= 0 else self._bytes + bytes(beyond)
        return map(flags.__getitem__, serials)

    def among(self, serials: Serials) -> array[int]:
        """Return those of `serials` that are in the set, in their order."""
        return array("q", compress(serials, self.of_each(serials)))

    def serials(self) -> array[int]:
        """Return all that are in the set, ascending."""
        return array("q", compress(range(self.size), self._bytes))

    def _joined(self, number: int) -> SerialSet:
        return SerialSet(self.size, number.to_bytes(self.size, "little"))


@dataclass(frozen=True)
class Order:
    """Runs that have a field, by its value and their serial, ascending: numbers, then texts."""

    numbers: Serials = field(default_factory=lambda: array("q"))
    texts: Serials = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.numbers) + len(self.texts)

    def arrange(self, matching: SerialSet, *, descending: bool) -> array[int]:
        """Return the wanted runs: numbers before texts, those without the field last, whatever the direction."""
        numbers, texts = matching.among(self.numbers), matching.among(self.texts)
        rest: Serials = array("q")
        members = matching.serials()
        if len(members) > len(numbers) + len(texts):
            rest = (matching & ~SerialSet.of(matching.size, numbers, texts)).serials()
        arranged = array("q")
        for part in (numbers, texts, rest):
            arranged.extend(part[::-1] if descending else part)
        return arranged
