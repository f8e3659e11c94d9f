"""Scalars of TensorBoard's event files, read and written without it."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.formats.tfevents import (
    Scalar,
    first_record,
    masked_crc,
    parameters_record,
    read_scalars,
    scalar_record,
    write_record,
)

SCALARS = [Scalar("loss", 0, 1700000000.25, 1.5), Scalar("val/loss é", 2**40, 1700000001.0, -0.25)]
FILE = first_record(1700000000.0) + b"".join(map(scalar_record, SCALARS))


def tensor_event(kind: int, field: bytes) -> bytes:
    """An event as TensorFlow 2 writes a scalar: a tensor of no dimensions."""
    tensor = b"\x08" + bytes([kind]) + b"\x12\x00" + field
    value = b"\x0a\x01x" + b"\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(value)]) + value
    return write_record(b"\x09" + struct.pack("<d", 5.0) + b"\x10\x03" + b"\x2a" + bytes([len(summary)]) + summary)


def test_what_was_written_reads_back() -> None:
    read = read_scalars(FILE)

    assert read.scalars == SCALARS
    assert (read.end, read.is_damaged) == (len(FILE), False)


def test_the_checksum_is_crc_32c_masked() -> None:
    # RFC 3720, B.4: 32 bytes of zeros have the CRC-32C 0x8a9136aa.
    crc = 0x8A9136AA
    assert masked_crc(b"\0" * 32) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (1, b"\x22\x04" + struct.pack("<f", 0.5), 0.5),
        (1, b"\x2a\x04" + struct.pack("<f", 0.5), 0.5),
        (2, b"\x22\x08" + struct.pack("<d", math.pi), math.pi),
        (9, b"\x22\x08" + struct.pack("<q", -7), -7.0),
        (3, b"\x3a\x01\x05", 5.0),
        (10, b"\x22\x01\x01", 1.0),
    ],
    ids=["float bytes", "float value", "double", "int64", "int32 value", "bool"],
)
def test_scalars_that_are_tensors_are_read(kind: int, field: bytes, value: float) -> None:
    assert read_scalars(tensor_event(kind, field)).scalars == [Scalar("x", 3, 5.0, value)]


def test_what_is_no_scalar_is_passed_over() -> None:
    image = tensor_event(7, b"\x42\x03abc")
    two = tensor_event(1, b"\x22\x08" + struct.pack("<ff", 1, 2))

    assert read_scalars(image + two + scalar_record(SCALARS[0]) + write_record(b"\xff\xff")).scalars == SCALARS[:1]


@given(st.integers(0, len(FILE)))
def test_a_tail_that_is_cut_anywhere_is_read_later(cut: int) -> None:
    first = read_scalars(FILE[:cut])
    rest = read_scalars(FILE[first.end :])

    assert not first.is_damaged
    assert first.scalars + rest.scalars == SCALARS


@given(st.binary(max_size=200))
def test_nothing_that_a_file_holds_raises(data: bytes) -> None:
    assert read_scalars(data).end <= len(data)
    assert read_scalars(write_record(data)).end == len(write_record(data))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -1e300])
def test_numbers_that_a_float_cannot_hold_are_written_as_what_is_nearest(value: float) -> None:
    [read] = read_scalars(scalar_record(Scalar("x", 1, 2.0, value))).scalars

    assert math.isnan(read.value) if math.isnan(value) else read.value == math.copysign(math.inf, value)


def test_hyperparameters_are_read_as_texts() -> None:
    given = {"lr": 0.5, "width": 32, "optimizer": "adam", "nesterov": True}
    read = read_scalars(FILE + parameters_record(given, 1.0) + scalar_record(SCALARS[0]))

    assert read.parameters == {"lr": "0.5", "width": "32", "optimizer": "adam", "nesterov": "True"}
    assert read.scalars == [*SCALARS, SCALARS[0]]
    assert read_scalars(write_record(b"_hparams_/session_start_info")).parameters == {}
