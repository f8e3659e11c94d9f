from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.core.formats.tree import (
    MAX_TREE_BYTES,
    Entry,
    FileEntry,
    FolderEntry,
    LinkEntry,
    decode_tree,
    encode_tree,
    name_text,
    snapshot_id,
)

A, B = "a" * 64, "b" * 64
FILE = {"n": "x", "t": "f", "m": 0o644, "s": 3, "c": [A]}


def canonical(*entries: object) -> bytes:
    return json.dumps({"entries": list(entries)}, separators=(",", ":"), ensure_ascii=True).encode()


def test_the_form_is_the_one_the_http_api_names() -> None:
    data = encode_tree([LinkEntry("l", "a/b"), FileEntry("b", 0o755, 5, (A, B)), FolderEntry("d", 0o700, B)])

    assert data == (
        b'{"entries":[{"n":"b","t":"f","m":493,"s":5,"c":["' + A.encode() + b'","' + B.encode() + b'"]},'
        b'{"n":"d","t":"d","m":448,"i":"' + B.encode() + b'"},{"n":"l","t":"l","l":"a/b"}]}'
    )
    assert data == canonical(*json.loads(data)["entries"])
    assert snapshot_id("0123456789abcdef" * 4) == "01234567-89ab-cdef-0123-456789abcdef"
    assert encode_tree([]) == b'{"entries":[]}'


def test_names_are_ordered_by_their_bytes() -> None:
    raw = [b"\xff", b"Z", b"a", "ä".encode(), b"z.py", b"a/b"[:1] + b"0", "\U0001f600".encode()]
    entries: list[Entry] = [FileEntry(name_text(name), 0o644, 0, ()) for name in raw]

    found = [entry.name.encode("utf-8", "surrogateescape") for entry in decode_tree(encode_tree(entries))]
    assert found == sorted(raw)


names = st.binary(min_size=1, max_size=40).filter(lambda raw: not set(raw) & {0, 47} and raw not in (b".", b".."))
ids = st.binary(min_size=32, max_size=32).map(bytes.hex)
entries_of = st.one_of(
    st.builds(lambda n, m, c: (n, "f", m, c), names, st.integers(0, 0o777), st.lists(ids, max_size=3)),
    st.builds(lambda n, m, i: (n, "d", m, i), names, st.integers(0, 0o777), ids),
    st.builds(lambda n, t: (n, "l", 0, t), names, names),
)


@given(st.lists(entries_of, max_size=12, unique_by=lambda item: item[0]))
def test_every_tree_reads_back_as_it_was(items: list[tuple[bytes, str, int, object]]) -> None:
    entries: list[Entry] = []
    for raw, kind, mode, rest in items:
        name = name_text(raw)
        if kind == "f":
            assert isinstance(rest, list)
            entries.append(FileEntry(name, mode, len(rest) * 10, tuple(rest)))
        elif kind == "d":
            entries.append(FolderEntry(name, mode, str(rest)))
        else:
            assert isinstance(rest, bytes)
            entries.append(LinkEntry(name, name_text(rest)))

    data = encode_tree(entries)
    assert sorted(decode_tree(data)) == sorted(entries)
    assert data == canonical(*json.loads(data)["entries"])


BAD = {
    "not JSON": b"{",
    "not ASCII": '{"entries":[{"n":"é"}]}'.encode(),
    "no object": b"[]",
    "no entries": b"{}",
    "another key": b'{"entries":[],"x":1}',
    "white space": b'{"entries": []}',
    "an empty name": canonical({**FILE, "n": ""}),
    "dot": canonical({**FILE, "n": "."}),
    "dot dot": canonical({**FILE, "n": ".."}),
    "a slash": canonical({**FILE, "n": "a/b"}),
    "a leading slash": canonical({**FILE, "n": "/etc"}),
    "NUL": canonical({**FILE, "n": "a\0"}),
    "a long name": canonical({**FILE, "n": "x" * 256}),
    "a name that is no text": canonical({**FILE, "n": 5}),
    "a high surrogate": b'{"entries":[{"n":"\\ud800","t":"l","l":"x"}]}',
    "escaped bytes that are UTF-8": canonical({**FILE, "n": "\udcc3\udca9"}),
    "a name twice": canonical(FILE, FILE),
    "names out of order": canonical({**FILE, "n": "b"}, {**FILE, "n": "a"}),
    "a setuid mode": canonical({**FILE, "m": 0o4755}),
    "a negative mode": canonical({**FILE, "m": -1}),
    "a mode that is true": canonical({**FILE, "m": True}),
    "a negative size": canonical({**FILE, "s": -1}),
    "a size without chunks": canonical({**FILE, "c": []}),
    "chunks without a size": canonical({**FILE, "s": 0}),
    "a size that chunks cannot have": canonical({**FILE, "s": 5 << 20}),
    "a fraction": canonical({**FILE, "s": 1.5}),
    "a short id": canonical({**FILE, "c": ["a" * 63]}),
    "an id in capitals": canonical({**FILE, "c": ["A" * 64]}),
    "an id that is a path": canonical({**FILE, "c": ["../" + "a" * 61]}),
    "an unknown kind": canonical({**FILE, "t": "p"}),
    "an unknown field": canonical({**FILE, "x": 1}),
    "fields in another order": b'{"entries":[{"t":"l","n":"x","l":"y"}]}',
    "a field twice": b'{"entries":[{"n":"x","n":"y","t":"l","l":"y"}]}',
    "a link to nothing": canonical({"n": "x", "t": "l", "l": ""}),
    "a link with NUL": canonical({"n": "x", "t": "l", "l": "a\0b"}),
    "a link that is too long": canonical({"n": "x", "t": "l", "l": "a" * 4096}),
    "deep JSON": b'{"entries":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "too many bytes": b" " * (MAX_TREE_BYTES + 1),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_is_not_a_canonical_tree_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="tree object"):
        decode_tree(data)


def test_the_control_of_the_list_above_is_a_tree() -> None:
    assert decode_tree(canonical(FILE)) == [FileEntry("x", 0o644, 3, (A,))]


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes) -> None:
    try:
        decode_tree(data)
    except InvalidArgument:
        pass


def test_a_name_that_is_not_utf_8_keeps_its_bytes() -> None:
    name = name_text(b"caf\xe9-\xff")

    assert decode_tree(encode_tree([FileEntry(name, 0o644, 0, ())]))[0].name == os.fsdecode(b"caf\xe9-\xff")
