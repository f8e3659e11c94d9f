"""Names and ids: made and checked here and nowhere else, so that none ever leaves its root."""

from __future__ import annotations

import os
import re
import time
import unicodedata

from runyard.core.errors import InvalidArgument

EXPERIMENT_NAME = re.compile(r"[a-zA-Z0-9][\w\-]{0,254}", re.ASCII)
WORKSPACE_NAME = re.compile(r"[a-zA-Z0-9][\w\-]{2,32}", re.ASCII)
RUN_ID = re.compile(r"[a-zA-Z0-9][\w\-]{0,255}", re.ASCII)
ASSET_NAME = re.compile(r"[a-zA-Z0-9][\w.\-]{0,254}", re.ASCII)
CONTENT_ID = re.compile(r"[0-9a-f]{64}")
SNAPSHOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WRITER_ID = re.compile(r"[a-z0-9][a-z0-9\-]{0,63}")
MAX_FILE_NAME = 1024
MAX_METRIC_NAME = 255
SYSTEM_METRICS = "_system/"  # begins the names of what a run's machine did; `get_metrics()` leaves them out


def make_run_id(experiment: str, *, now: float | None = None) -> str:
    """Return a submitted run's id: `<experiment>_<unix seconds>_<8 hex>`."""
    seconds = int(time.time() if now is None else now)
    return f"{experiment[:220]}_{seconds}_{os.urandom(4).hex()}"


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


def check_experiment_name(value: str) -> str:
    return _match(
        EXPERIMENT_NAME, value, "experiment name", "letters, digits, `_` and `-`, at most 255, a letter or digit first"
    )


def check_workspace_name(value: str) -> str:
    return _match(
        WORKSPACE_NAME, value, "workspace name", "3 to 33 letters, digits, `_` and `-`, a letter or digit first"
    )


def check_asset_name(value: str) -> str:
    """Return the name of an environment, a compute target, a datastore, a model."""
    return _match(ASSET_NAME, value, "name", "letters, digits, `_`, `.` and `-`, at most 255, a letter or digit first")


def check_content_id(value: str) -> str:
    return _match(CONTENT_ID, value, "content id", "64 hexadecimal digits (a SHA-256)")


def check_snapshot_id(value: str) -> str:
    return _match(SNAPSHOT_ID, value, "snapshot id", "a UUID, as run.get_snapshot_id() gives it")


def check_writer_id(value: str) -> str:
    return _match(WRITER_ID, value, "journal writer id", "small letters, digits and `-`")


def clean_file_name(value: str) -> str:
    """Return the one canonical form of a run file's name, `outputs/model.pkl`.

    Raises:
        InvalidArgument: the name is empty, absolute, leaves its root, or holds characters no file system agrees on.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"A file name must be text, found {type(value).__name__}.")
    name = unicodedata.normalize("NFC", value)
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    reason = _file_name_fault(name)
    if reason:
        raise InvalidArgument(
            f"The file name {value[:200]!r} cannot be used.",
            why=reason,
            hint="Use a relative name with `/` between folders, such as `outputs/model.pkl`.",
        )
    return name


def _file_name_fault(name: str) -> str:
    if not name:
        return "It is empty."
    if len(name.encode("utf-8", "surrogatepass")) > MAX_FILE_NAME:
        return f"It is longer than {MAX_FILE_NAME} bytes."
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "It is an absolute path."
    if "\\" in name:
        return "It holds a backslash."
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return "It holds a control character."
    if any(0xD800 <= ord(char) <= 0xDFFF for char in name):
        return "It is not valid UTF-8."
    for part in name.split("/"):
        if part in ("", ".", ".."):
            return f"It holds the part {part!r}."
        if part != part.strip() or part.endswith("."):
            return f"The part {part!r} starts or ends with a space, or ends with a dot."
    return ""


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
