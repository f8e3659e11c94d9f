"""Records behind damaged bytes are found again, and nothing else is taken for a record."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.core.formats import journal
from runyard.core.formats.journal import CELL
from runyard.core.formats.journal_damage import Clues, defined_names, find_record, undefined_names

OPENED = 5 * 10**14
CLUES = Clues({1, 2}, OPENED)
HEADER = journal.pack_long(journal.HEADER, {"run": "r", "t": OPENED})
NAMES = journal.pack_long(journal.NAME, {"id": 1, "name": "loss"}) + journal.pack_long(
    journal.NAME, {"id": 2, "name": "accuracy"}
)


def number(value: float, name: int = 1, step: int | None = None) -> bytes:
    flags = 0 if step is None else journal.HAS_STEP
    return journal.pack_number(journal.FLOAT, flags, 0, name, step or 0, OPENED + int(value * 10**6), value)


def garbage(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("size", [32, 64, 4096])
@pytest.mark.parametrize("first", [0, 1, 16, 17, 0x7B, 0xFF])
def test_the_cell_after_garbage_is_found(size: int, first: int) -> None:
    data = bytes([first]) + garbage(size - 1) + number(7.0) + number(8.0)

    assert find_record(data, CLUES, after=0, grid=0) == size
    assert journal.end_of(data) == 0


@given(st.integers(1, 31), st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_numbers_are_found_off_the_grid(shift: int, seed: int) -> None:
    data = garbage(shift, seed) + b"".join(number(float(n), step=n) for n in range(4))

    assert find_record(data, CLUES, after=-1, grid=0) == shift


def test_no_number_is_found_inside_of_numbers() -> None:
    """Small ids, steps and round values make the inside of a cell look much like the start of one."""
    for name in (1, 2):
        for step in (None, 0, 1, 2, 3, 256, 65536):
            cells = b"".join(number(value, name, step) for value in (0.0, 1.0, 2.0, 0.5))
            for cut in range(1, CELL):
                found = find_record(cells[cut:], CLUES, after=-1, grid=0)

                assert found == CELL - cut, (name, step, cut)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=200), max_size=5))
@settings(deadline=None, max_examples=50)
def test_no_record_is_found_inside_of_a_payload(tags: dict[str, str]) -> None:
    record = journal.pack_long(journal.TAGS, {"set": tags})
    damaged = b"\xff" + record[1:]

    assert find_record(damaged, CLUES, after=0, grid=0) is None
    assert find_record(damaged + number(1.0), CLUES, after=0, grid=0) == len(record)


def test_a_long_record_is_found_by_its_crc() -> None:
    good = journal.pack_long(journal.ROW, {"name": "row", "columns": {"x": 1}})
    bad = good[:20] + b"?" + good[21:]

    assert find_record(garbage(32) + bad + good, CLUES, after=0, grid=0) == 32 + len(bad)


def test_a_number_whose_name_was_lost_counts_only_with_a_second_one() -> None:
    alone = garbage(32) + number(1.0, name=3)

    assert find_record(alone, CLUES, after=0, grid=0) is None
    assert find_record(alone + number(2.0, name=3), CLUES, after=0, grid=0) == 32
    assert undefined_names((number(1.0, name=3) + number(2.0)), {1, 2}) == {3}
    assert defined_names(HEADER + NAMES + number(1.0)) == {1, 2}


def test_a_time_that_cannot_be_is_no_number() -> None:
    far = journal.pack_number(journal.FLOAT, 0, 0, 1, 0, OPENED + 10**18, 1.0)

    assert find_record(garbage(32) + far, CLUES, after=0, grid=0) is None


def test_a_cell_of_garbage_that_begins_like_a_number_ends_the_numbers_before_it() -> None:
    posing = b"\x01\x07" + garbage(30)

    assert journal.end_of(number(1.0) + posing + number(2.0)) == CELL


def test_many_short_long_records_take_linear_time() -> None:
    record = journal.pack_long(journal.TAGS, {"set": 1})
    data = (record + number(1.0)) * 20_000

    assert journal.end_of(data) == len(data)
