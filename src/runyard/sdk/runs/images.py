"""What `log_image` and the `log_*` forms of JSON accept, and the names of the files they become."""

from __future__ import annotations

import io
import json
import os
import re
import time
from typing import Any, Mapping, Union

from runyard.core.names import clean_file_name
from runyard.sdk.exceptions import AzureMLException, UserErrorException

# First bytes of the kinds of image that browsers and viewers know.
_SIGNATURES = (
    rb"\x89PNG\r\n\x1a\n",
    rb"\xff\xd8\xff",
    rb"GIF8[79]a",
    rb"BM",
    rb"II\*\0|MM\0\*",
    rb"RIFF....WEBP",
    rb"P[1-6]\s",
    rb"#define ",
    rb"\x01\xda[\x00\x01][\x01\x02]",
    rb"\x59\xa6\x6a\x95",
    rb"v/1\x01",
    rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]",
)
_IS_IMAGE = re.compile(b"|".join(b"(?:" + one + b")" for one in _SIGNATURES), re.DOTALL)


def read_image(path: Union[str, os.PathLike[str]]) -> bytes:
    """Return the file's bytes.

    Raises:
        UserErrorException: it cannot be read.
        AzureMLException: it is no image.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UserErrorException(f"The image {os.fspath(path)!r} cannot be read: {error.strerror or error}.") from None
    if not _IS_IMAGE.match(content):
        raise AzureMLException(
            f"The file {os.fspath(path)!r} is not recognised as an image (it starts with {content[:8]!r}). "
            "Store other files with run.upload_file(name, path)."
        )
    return content


def plot_bytes(plot: Any) -> bytes:
    """Return the PNG that the plot's `savefig` writes."""
    if not callable(getattr(plot, "savefig", None)):
        raise AzureMLException(
            f"plot must have a savefig method, as matplotlib's pyplot and Figure have; found {type(plot).__name__}."
        )
    buffer = io.BytesIO()
    plot.savefig(buffer, format="png")
    return buffer.getvalue()


def image_name(name: Union[str, os.PathLike[str]], *, is_plot: bool = False, now: float | None = None) -> str:
    """Return the run file's name: the path given, or `<name>_<unix seconds>.png` for a plot."""
    if is_plot:
        return artifact_name(f"{os.fspath(name)}_{int(time.time() if now is None else now)}.png")
    path = os.path.normpath(os.fspath(name)).lstrip("/")
    while path.startswith("../"):
        path = path[3:]
    return clean_file_name(path)


def artifact_name(name: str) -> str:
    """Return a metric's name as a file name; what a file name cannot hold becomes `_`."""
    parts = [re.sub(r"[\x00-\x1f\x7f\\:]", "_", part).strip().rstrip(".") or "_" for part in str(name).split("/")]
    return clean_file_name("/".join(parts))


def json_bytes(name: str, value: Union[str, Mapping[str, Any]]) -> bytes:
    """Return a dict or JSON text as JSON.

    Raises:
        UserErrorException: the text is no JSON, or the dict holds what JSON cannot.
    """
    try:
        document = json.loads(value) if isinstance(value, str) else value
        if not isinstance(document, Mapping):
            raise UserErrorException(
                f"The metric `{name}` needs a dict or its JSON text, found {type(document).__name__}."
            )
        return json.dumps(dict(document), default=_plain_number).encode()
    except (TypeError, ValueError) as error:
        raise UserErrorException(f"The value of the metric `{name}` is not JSON: {error}.") from None


def _plain_number(value: Any) -> Any:
    """numpy's numbers and arrays, without importing numpy."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
