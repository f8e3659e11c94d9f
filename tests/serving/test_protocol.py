"""Frames between gateway and worker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import ProtocolError
from runyard.serving import protocol
from runyard.serving.protocol import FrameBuffer, WireAnswer, WireFrame, WireRequest

BODIES = st.one_of(st.binary(max_size=50), st.integers(60_000, 200_000).map(lambda size: b"\xff\n" * size))
REQUESTS = st.lists(st.builds(WireRequest, st.integers(0, 2**64 - 1), st.binary(max_size=80), BODIES), max_size=4)
ANSWERS = st.lists(
    st.builds(
        WireAnswer,
        st.integers(0, 2**64 - 1),
        st.integers(100, 599),
        st.integers(0, 3),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=80),
        BODIES,
    ),
    max_size=4,
)


def receive(data: bytes, sizes: list[int]) -> list[WireFrame]:
    """Return the frames in `data`, which arrives in pieces of these sizes, again and again."""
    buffer, frames, at = FrameBuffer(), [], 0
    turn = 0
    while at < len(data):
        room = buffer.get_buffer()
        count = min(len(room), sizes[turn % len(sizes)], len(data) - at)
        room[:count] = data[at : at + count]
        frames += buffer.buffer_updated(count)
        at += count
        turn += 1
    return frames


@given(REQUESTS, ANSWERS, st.lists(st.integers(1, 300_000), min_size=1, max_size=5))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    requests: list[WireRequest], answers: list[WireAnswer], sizes: list[int]
) -> None:
    sizes = [size if size > 1000 or len(requests) == 0 else 1000 for size in sizes]
    pieces = [*protocol.pack_requests(requests), *protocol.pack_answers(answers), protocol.pack_note(protocol.STOP)]

    first, second, third = receive(b"".join(pieces), sizes)

    found = [WireRequest(one.id, one.head, bytes(one.body)) for one in protocol.iter_requests(first)]
    assert (first.kind, found) == (protocol.REQUESTS, requests)
    assert [one._replace(body=bytes(one.body)) for one in protocol.iter_answers(second)] == answers
    assert (third.kind, protocol.read_note(third)) == (protocol.STOP, {})


def test_bytes_that_arrive_one_by_one_become_frames() -> None:
    requests = [WireRequest(7, b"POST\n/score", b"{}")]

    (frame,) = receive(b"".join(protocol.pack_requests(requests)), [1])

    assert list(protocol.iter_requests(frame)) == requests


def test_large_bodies_are_not_copied_into_the_frame() -> None:
    body = b"x" * (1 << 20)

    pieces = protocol.pack_requests([WireRequest(1, b"h", body)])

    assert any(piece is body for piece in pieces)


@pytest.mark.parametrize("payload", [b"", b"\x00" * 8, b"\x01" * 16 + b"short"])
def test_a_cut_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError, match="cut off"):
        list(protocol.iter_requests(WireFrame(protocol.REQUESTS, 1, payload)))
    with pytest.raises(ProtocolError, match="cut off"):
        list(protocol.iter_answers(WireFrame(protocol.ANSWERS, 1, payload)))


def test_a_frame_larger_than_any_of_ours_is_refused() -> None:
    with pytest.raises(ProtocolError, match="too large"):
        receive((protocol.MAX_PAYLOAD + 1).to_bytes(4, "little") + b"\x03\x00\x01\x00", [8])


@pytest.mark.parametrize("text", [b"[1]", b"{", b"\xff", b"[" * 100_000])
def test_json_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.read_note(WireFrame(protocol.NOTE, 0, text))


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9))))
def test_headers_come_back(pairs: list[tuple[bytes, bytes]]) -> None:
    clean = [(name.replace(b"\n", b"") or b"n", value.replace(b"\n", b"")) for name, value in pairs]

    assert protocol.read_headers(protocol.pack_headers(clean)) == clean
