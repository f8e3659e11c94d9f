"""Names and ids: made and checked here alone, so that none leads out of its root."""

from __future__ import annotations

import os
import re
import time
import unicodedata

from runyard.core.errors import InvalidArgument

WORKSPACE_NAME = re.compile(r"[a-zA-Z0-9][\w\-]{2,32}", re.ASCII)
RUN_ID = re.compile(r"[a-zA-Z0-9][\w\-]{0,255}", re.ASCII)
PLAIN_NAME = re.compile(r"[a-zA-Z0-9][\w.\-]{0,254}", re.ASCII)
ANY_NAME = re.compile("(?=.*\\S)[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,255}")
_TITLE = re.compile("(?=(?s:.)*\\S)[^\x00\ud800-\udfff]{1,500}")
CONTENT_ID = re.compile(r"[0-9a-f]{64}")
SNAPSHOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WRITER_ID = re.compile(r"[a-z0-9][a-z0-9\-]{0,63}")
MAX_FILE_NAME = 1024
MAX_METRIC_NAME = 255
EVENT_FILE_MARK = "tfevents"  # in the name of every event file of TensorBoard
_EASY_FILE_NAME = re.compile(r"[\w\-]+(?:\.[\w\-]+)*(?:/[\w\-]+(?:\.[\w\-]+)*)*", re.ASCII)
_ESCAPES = 0xF000  # plus a byte: the character that stands for it in a file's name
_ESCAPED = re.compile("[\uf001-\uf020\uf02e\uf05c\uf07f-\uf0ff]")
_ODD_IN_FILE_NAME = re.compile(
    "[\x01-\x1f\x7f\\\\\udc80-\udcff\uf001-\uf020\uf02e\uf05c\uf07f-\uf0ff]|(?:^|(?<=/))\\s|[\\s.](?=/|\\Z)"
)
SYSTEM_METRICS = "_system/"  # begins the names of what a run's machine did; `get_metrics()` leaves them out


def make_run_id(experiment: str, *, now: float | None = None) -> str:
    """Return a submitted run's id: `<experiment>_<unix seconds>_<8 hex>`."""
    seconds = int(time.time() if now is None else now)
    plain = re.sub(r"[^\w\-]", "_", experiment[:220], flags=re.ASCII)
    return f"{plain if plain[:1].isalnum() else f'x{plain}'}_{seconds}_{os.urandom(4).hex()}"


def make_sweep_id() -> str:
    """Return a sweep's id: `HD_<uuid>`."""
    return f"HD_{make_uuid()}"


def make_uuid() -> str:
    """Return a random UUID (version 4) without importing `uuid`."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def check_run_id(value: str) -> str:
    return _match(RUN_ID, value, "run id", "letters, digits, `_` and `-`, at most 256 characters")


def check_workspace_name(value: str) -> str:
    return _match(
        WORKSPACE_NAME, value, "workspace name", "3 to 33 letters, digits, `_` and `-`, a letter or digit first"
    )


def check_plain_name(value: str) -> str:
    """Return the name of a compute target, a datastore or a secret, which becomes part of paths and variables."""
    return _match(PLAIN_NAME, value, "name", "letters, digits, `_`, `.` and `-`, at most 255, a letter or digit first")


def check_asset_name(value: str, noun: str = "name") -> str:
    """Return the name of a dataset, a model, an environment or an experiment in NFC: any text of one line."""
    name = unicodedata.normalize("NFC", value) if isinstance(value, str) else value
    return _match(ANY_NAME, name, noun, "any printable text on one line, 1 to 255 characters")


def check_experiment_name(value: str) -> str:
    return check_asset_name(value, "experiment name")


def check_title(value: str) -> str:
    """Return the title of an experiment: any text that is not blank, at most 500 characters."""
    return _match(_TITLE, value, "title", "any text, 1 to 500 characters")


def name_of_title(title: str, attempt: int = 0) -> str:
    """Return a name for an experiment of that title: the title where it can be one, else letters of it and a hash.

    `attempt` counts the names that were taken.
    """
    if attempt == 0 and ANY_NAME.fullmatch(title) and unicodedata.normalize("NFC", title) == title:
        return title
    from hashlib import sha256  # hardly a title needs it

    plain = re.sub(r"[^\w.\-]+", "-", title[:60], flags=re.ASCII).strip("-.")
    digest = sha256(f"{attempt if attempt > 1 else ''}{title}".encode()).hexdigest()
    return f"{plain or 'experiment'}-{digest[:8]}"


def check_content_id(value: str) -> str:
    return _match(CONTENT_ID, value, "content id", "64 hexadecimal digits (a SHA-256)")


def check_snapshot_id(value: str) -> str:
    return _match(SNAPSHOT_ID, value, "snapshot id", "a UUID, as run.get_snapshot_id() gives it")


def check_writer_id(value: str) -> str:
    return _match(WRITER_ID, value, "journal writer id", "small letters, digits and `-`")


def clean_file_name(value: str) -> str:
    """Return the one canonical form of a run file's name, `outputs/model.pkl`; a canonical name stays as it is.

    Bytes that a database, an address, a header, a terminal or a Windows disk would not keep (control characters, a
    backslash, a space at the edge of a part, a dot at its end, bytes that are not UTF-8) become characters of Unicode's
    private use area, U+F000 plus the byte, as WSL writes them. Nothing in a name is ever decoded on the way;
    `true_file_name` turns it back where a file is written to a disk.

    Raises:
        InvalidArgument: the name is empty, too long, absolute, leaves its root, or holds NUL.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"A file name must be text, found {type(value).__name__}.")
    if len(value) <= MAX_FILE_NAME and _EASY_FILE_NAME.fullmatch(value):
        return value
    try:
        return _stored(_unescaped(value), value)
    except UnicodeEncodeError:
        raise _unusable_name(value, "It is not valid UTF-8.") from None


def stored_file_name(found: str) -> str:
    """Return the canonical name of a file that was found on a disk under this path, as `os.listdir` gives it.

    Raises:
        InvalidArgument: as `clean_file_name`.
    """
    if len(found) <= MAX_FILE_NAME and _EASY_FILE_NAME.fullmatch(found):
        return found
    return _stored(found, found)


def true_file_name(stored: str) -> str:
    """Return the path that a run's file had on the disk it came from, below its root, for `open` and its kind.

    Raises:
        InvalidArgument: no file may have that name here: a hostile server's, say.
    """
    name = clean_file_name(stored)
    return name if os.name == "nt" else _unescaped(name)


def _stored(name: str, given: str) -> str:
    name = unicodedata.normalize("NFC", name)
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    fault = _file_name_fault(name)
    stored = "" if fault else _ODD_IN_FILE_NAME.sub(_escape, name)
    if not fault and len(stored.encode("utf-8")) > MAX_FILE_NAME:
        fault = f"It is longer than {MAX_FILE_NAME} bytes."
    if fault:
        raise _unusable_name(given, fault)
    return stored


def _file_name_fault(name: str) -> str:
    if not name:
        return "It is empty."
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "It is an absolute path."
    if "\0" in name:
        return "It holds NUL."
    for part in name.split("/"):
        if part in ("", ".", ".."):
            return f"It holds the part {part!r}."
    return ""


def _escape(match: re.Match[str]) -> str:
    return "".join(chr(_ESCAPES + byte) for byte in match.group().encode("utf-8", "surrogateescape"))


def _unescaped(name: str) -> str:
    """Return the name with its escaped bytes in place, those that are not UTF-8 as `os.fsdecode` gives them."""
    if name.isascii():
        return name
    raw = _ESCAPED.sub(lambda match: _byte_as_text(ord(match.group()) - _ESCAPES), name)
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _byte_as_text(byte: int) -> str:
    return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)


def _unusable_name(value: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"The file name {value[:200]!r} cannot be used.",
        why=why,
        hint="Use a relative name with `/` between folders, such as `outputs/model.pkl`.",
    )


def check_metric_name(value: object) -> str:
    """Return a metric's name in NFC; raise InvalidArgument for what cannot be one."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"A metric name must be text that is not empty, found {value!r}.")
    name = unicodedata.normalize("NFC", value)
    if len(name) > MAX_METRIC_NAME:
        raise InvalidArgument(
            f"The metric name {name[:40]!r}… has {len(name)} characters; {MAX_METRIC_NAME} is the most."
        )
    if any(ord(char) < 32 or 0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise InvalidArgument(f"The metric name {name!r} holds a control character or is not valid UTF-8.")
    return name


def is_system_metric(name: str) -> bool:
    return name.startswith(SYSTEM_METRICS)


def _match(pattern: re.Pattern[str], value: str, noun: str, rule: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidArgument(f"{str(value)[:300]!r} is not a valid {noun}.", why=f"Allowed: {rule}.")
    return value
