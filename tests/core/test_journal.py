import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.formats import journal
from runyard.core.formats.journal import (
    CELL,
    LongRecord,
    Span,
    end_of,
    iter_parts,
    pack_integer,
    pack_long,
    pack_number,
)

A_NUMBER = pack_number(journal.FLOAT, 0, 0, 1, 0, 5, 0.25)


def test_a_number_is_one_cell_of_32_bytes() -> None:
    kind, flags, _, name, step, time, value = journal.NUMBER.unpack(pack_number(1, 1, 0, 7, -3, 99, math.inf))

    assert len(A_NUMBER) == CELL == 32
    assert (kind, flags, name, step, time, value) == (journal.FLOAT, journal.HAS_STEP, 7, -3, 99, math.inf)


def test_an_integer_keeps_all_64_bits() -> None:
    cell = pack_integer(journal.INT, 0, 0, 1, 0, 0, 2**63 - 1)

    assert journal.INTEGER.unpack(cell)[-1] == 2**63 - 1


def test_an_integer_of_65_bits_is_refused_by_the_cell() -> None:
    with pytest.raises(struct.error):
        pack_integer(journal.INT, 0, 0, 1, 0, 0, 2**63)


@given(st.lists(st.one_of(st.integers(1, 50), st.dictionaries(st.text(max_size=5), st.text(max_size=90), max_size=3))))
def test_what_was_packed_is_found_again(items: list) -> None:
    data, expected = b"", []
    for item in items:
        start = len(data)
        data += A_NUMBER * item if isinstance(item, int) else pack_long(journal.TAGS, item)
        if isinstance(item, int) and expected and isinstance(expected[-1], Span):
            expected[-1] = Span(expected[-1].offset, len(data))
        elif isinstance(item, int):
            expected.append(Span(start, len(data)))
        else:
            expected.append(LongRecord(start, len(data), journal.TAGS, item))

    assert list(iter_parts(data)) == expected
    assert len(data) % CELL == 0


@pytest.mark.parametrize("cut", range(1, 96, 7))
def test_a_torn_tail_is_left_out(cut: int) -> None:
    whole = pack_long(journal.NAME, {"id": 1, "name": "loss"}) + A_NUMBER
    torn = pack_long(journal.TAGS, {"set": {"key": "v" * 60}})

    assert end_of(whole + torn[:-cut]) == len(whole)


def test_a_zero_filled_tail_is_the_end() -> None:
    assert end_of(A_NUMBER * 2 + bytes(4096)) == 2 * CELL


@pytest.mark.parametrize("at", [4, 8, 16, 20])
def test_a_flipped_bit_in_a_long_record_is_noticed(at: int) -> None:
    data = bytearray(pack_long(journal.TAGS, {"set": {"a": "b"}}))
    data[at] ^= 1

    assert list(iter_parts(bytes(data))) == []


def test_offsets_count_from_the_base() -> None:
    assert list(iter_parts(A_NUMBER, base=640)) == [Span(640, 672)]


def test_a_payload_that_is_no_object_reads_as_an_empty_one() -> None:
    [record] = iter_parts(journal.pack_payload(journal.TAGS, b"[1,2]"))

    assert isinstance(record, LongRecord)
    assert record.payload == {}


@given(st.binary(max_size=400))
def test_random_bytes_never_raise(data: bytes) -> None:
    assert end_of(data) <= len(data)
