"""TensorBoard's event files: scalars in and out. Pure; needs neither TensorFlow nor protobuf.

A file is a sequence of records (length, CRC of the length, bytes, CRC of the bytes: little endian, CRC-32C, masked).
The bytes are a protobuf message `Event`; of its fields only the time, the step and scalar summaries matter here.
"""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

_HPARAMS_TAG = b"_hparams_/session_start_info"
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_HEAD = _LENGTH.size + _CRC.size
_MOST = 1 << 30  # a longer record is no record
# Wire types of protobuf.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# struct's letters for TensorFlow's types of numbers: float, double, int32, uint8, int16, int8, int64, bool, half.
_TYPES = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 10: "?", 19: "e"}
_VALUES = {1: 5, 2: 6, 3: 7, 4: 7, 5: 7, 6: 7, 9: 10, 10: 11}  # and the fields of a tensor that hold them
_STRING = 7  # TensorFlow's type of texts
_OLD_KINDS = {3: "histograms", 4: "images", 5: "histograms", 6: "audio"}  # fields of values, before there were plugins
Field = Union[int, bytes]


class Scalar(NamedTuple):
    tag: str
    step: int
    wall_time: float
    value: float


class OtherValue(NamedTuple):
    """A value that is no number: a text, an image, a histogram; `message` is the protobuf `Summary.Value`."""

    step: int
    wall_time: float
    message: bytes


class Restart(NamedTuple):
    """A program began again at a step: what was written from there on before counts no more."""

    step: int
    at: int  # how many scalars of this reading come before


class Read(NamedTuple):
    scalars: List[Scalar]
    end: int  # of the last whole record; what follows is read again
    is_damaged: bool = False  # no record can be found from there on
    parameters: Mapping[str, str] = MappingProxyType({})  # hyperparameters, as the plugin `hparams` has them
    others: Sequence[OtherValue] = ()  # when they are asked for
    restarts: Sequence[Restart] = ()


def read_scalars(data: bytes, *, with_others: bool = False) -> Read:
    """Return what the whole records of `data` hold; a tail that is still being written is left for later."""
    found: List[Scalar] = []
    others: Optional[List[OtherValue]] = [] if with_others else None
    restarts: List[Restart] = []
    parameters: Dict[str, str] = {}
    at = 0
    while at + _HEAD <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        (crc,) = _CRC.unpack_from(data, at + _LENGTH.size)
        if length > _MOST or masked_crc(data[at : at + _LENGTH.size]) != crc:
            return Read(found, at, True, parameters, others or (), restarts)
        stop = at + _HEAD + length
        if stop + _CRC.size > len(data):
            break
        try:
            message = data[at + _HEAD : stop]
            before = len(found)
            found += _scalars_of(message, others)
            if len(found) == before and others is not None:
                restarts += [Restart(step, before) for step in _restart_of(message)]
            if _HPARAMS_TAG in message:
                parameters.update(_parameters_of(message))
        except (ValueError, IndexError, struct.error):
            pass  # a message of another kind: the next record begins where this one's length says
        at = stop + _CRC.size
    return Read(found, at, False, parameters, others or (), restarts)


def first_time(data: bytes) -> Optional[float]:
    """Return the wall clock time of the first event, None when its record is damaged or not whole."""
    if len(data) < _HEAD:
        return None
    (length,), (crc,) = _LENGTH.unpack_from(data), _CRC.unpack_from(data, _LENGTH.size)
    if masked_crc(data[: _LENGTH.size]) != crc or _HEAD + length > len(data):
        return None
    found = dict(iter_fields(data[_HEAD : _HEAD + length])).get(1)
    return float(_DOUBLE.unpack(found)[0]) if isinstance(found, bytes) else None


def describe_other(message: bytes) -> Tuple[str, str, Optional[List[str]]]:
    """Return tag and kind of a value that is no number, and its texts when it is one of texts."""
    tag, kind, plugin, texts = "", "", "", None
    for number, field in iter_fields(message):
        if number == 1 and isinstance(field, bytes):
            tag = field.decode("utf-8", "replace")
        elif number in _OLD_KINDS:
            kind = _OLD_KINDS[number]
        elif number == 8 and isinstance(field, bytes) and dict(iter_fields(field)).get(1) == _STRING:
            texts = [item.decode("utf-8", "replace") for item in _inner(field, 8)]
        elif number == 9 and isinstance(field, bytes):
            plugin = _inner_first(_inner_first(field, 1), 1).decode("utf-8", "replace")
    return tag, kind or plugin, texts


def write_record(message: bytes) -> bytes:
    length = _LENGTH.pack(len(message))
    return length + _CRC.pack(masked_crc(length)) + message + _CRC.pack(masked_crc(message))


def first_record(wall_time: float) -> bytes:
    """Return the record that every file begins with."""
    return write_record(_tag(1, _FIXED64) + _DOUBLE.pack(wall_time) + _text(3, "brain.Event:2"))


def scalar_record(scalar: Scalar) -> bytes:
    value = _text(1, scalar.tag) + _tag(2, _FIXED32) + _FLOAT.pack(_as_float(scalar.value))
    summary = _nested(1, value)
    event = _tag(1, _FIXED64) + _DOUBLE.pack(scalar.wall_time) + _tag(2, _VARINT) + _varint(scalar.step)
    return write_record(event + _nested(5, summary))


def parameters_record(parameters: Mapping[str, Union[str, bool, float]], wall_time: float) -> bytes:
    """Return the record with which the plugin `hparams` notes the hyperparameters of a session."""
    values = b"".join(_nested(1, _text(1, name) + _nested(2, _plain(value))) for name, value in parameters.items())
    plugin = _text(1, "hparams") + _nested(2, _nested(3, values))
    value = _text(1, _HPARAMS_TAG.decode()) + _nested(9, _nested(1, plugin))
    return write_record(_tag(1, _FIXED64) + _DOUBLE.pack(wall_time) + _nested(5, _nested(1, value)))


def _plain(value: Union[str, bool, float]) -> bytes:
    if isinstance(value, bool):
        return _tag(4, _VARINT) + _varint(value)
    return _text(3, value) if isinstance(value, str) else _tag(2, _FIXED64) + _DOUBLE.pack(value)


def _as_float(value: float) -> float:
    try:
        return _FLOAT.unpack(_FLOAT.pack(value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _restart_of(message: bytes) -> Iterator[int]:
    """Yield the step of an event that says that a session starts (SessionLog.START)."""
    fields = dict(iter_fields(message))
    session, step = fields.get(7), fields.get(2, 0)
    if isinstance(session, bytes) and isinstance(step, int) and dict(iter_fields(session)).get(1) == 1:
        yield step - (1 << 64) if step >= 1 << 63 else step


def _scalars_of(message: bytes, others: Optional[List[OtherValue]]) -> Iterator[Scalar]:
    step, wall_time, summary = 0, 0.0, b""
    for number, field in iter_fields(message):
        if number == 1 and isinstance(field, bytes):
            (wall_time,) = _DOUBLE.unpack(field)
        elif number == 2 and isinstance(field, int):
            step = field - (1 << 64) if field >= 1 << 63 else field
        elif number == 5 and isinstance(field, bytes):
            summary = field
    for number, field in iter_fields(summary):
        if number == 1 and isinstance(field, bytes):
            found = _value_of(field)
            if found is not None:
                yield Scalar(found[0], step, wall_time, found[1])
            elif others is not None:
                others.append(OtherValue(step, wall_time, field))


def _parameters_of(event: bytes) -> Iterator[Tuple[str, str]]:
    """Yield the hyperparameters of an event: summary → value → metadata → plugin data → session start → a map."""
    for value in _inner(_inner_first(event, 5), 1):
        if _inner_first(value, 1) != _HPARAMS_TAG:
            continue
        content = _inner_first(_inner_first(_inner_first(value, 9), 1), 2)
        for entry in _inner(_inner_first(content, 3), 1):
            found = dict(iter_fields(_inner_first(entry, 2)))
            name = _inner_first(entry, 1).decode("utf-8", "replace")
            for number, held in found.items():
                text = _parameter_text(number, held)
                if name and text is not None:
                    yield name, text


def _parameter_text(number: int, held: Field) -> Optional[str]:
    """Return what a google.protobuf.Value holds; a list or a structure is not shown."""
    if number == 2 and isinstance(held, bytes):
        (value,) = _DOUBLE.unpack(held)
        return str(int(value)) if value.is_integer() and abs(value) < 1 << 53 else repr(value)
    if number == 3 and isinstance(held, bytes):
        return held.decode("utf-8", "replace")
    return str(bool(held)) if number == 4 else "None" if number == 1 else None


def _inner(message: bytes, wanted: int) -> List[bytes]:
    return [field for number, field in iter_fields(message) if number == wanted and isinstance(field, bytes)]


def _inner_first(message: bytes, wanted: int) -> bytes:
    return next(iter(_inner(message, wanted)), b"")


def _value_of(message: bytes) -> Optional[Tuple[str, float]]:
    tag, value = "", None
    for number, field in iter_fields(message):
        if not isinstance(field, bytes):
            continue
        if number == 1:
            tag = field.decode("utf-8", "replace")
        elif number == 2:
            (value,) = _FLOAT.unpack(field)
        elif number == 8:
            value = _number_of(field)
    return None if value is None or not tag else (tag, value)


def _number_of(tensor: bytes) -> Optional[float]:
    """Return a tensor's only number; None when it has several, or none."""
    fields: Dict[int, Field] = dict(iter_fields(tensor))
    kind = fields.get(1)
    letter = _TYPES.get(kind) if isinstance(kind, int) else None
    content = fields.get(4, b"")
    if letter is None:
        return None
    if isinstance(content, bytes) and content:
        return _only(content, letter)
    held = fields.get(_VALUES.get(int(kind or 0), 0))
    if isinstance(held, int):
        return float(held - (1 << 64) if held >= 1 << 63 else held)
    if not held:
        return None
    return _only(held, letter) if letter in "fd" else float(_only_varint(held))


def _only(data: bytes, letter: str) -> Optional[float]:
    return float(struct.unpack(f"<{letter}", data)[0]) if len(data) == struct.calcsize(f"<{letter}") else None


def _only_varint(data: bytes) -> int:
    value, end = _read_varint(data, 0)
    if end != len(data):
        raise ValueError("several numbers")
    return value - (1 << 64) if value >= 1 << 63 else value


def iter_fields(message: bytes) -> Iterator[Tuple[int, Field]]:
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        if size is None or at + size > len(message):
            raise ValueError("not a message")
        yield number, message[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> Tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("not a number")


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _nested(number: int, message: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(message)) + message


def _text(number: int, text: str) -> bytes:
    return _nested(number, text.encode("utf-8", "replace"))


def _make_table() -> List[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _make_table()


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
