"""The Python of an image: which one it is, asked by running it once per image."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from runyard.core.errors import SubmitRejected
from runyard.environments.cache import Place
from runyard.environments.container.images import Image
from runyard.environments.interpreter import PACKAGES_SCRIPT
from runyard.environments.pythons import OLDEST

# Debian's images have python3 and no python. The first word is the name that was asked for.
_FIND = 'p=$(command -v "$1" || { [ "$1" = python ] && command -v python3; }) && exec "$p" -c "$2"'
# Its version first: an old Python says no more.
_ASK = """
import json, os, sys
print(json.dumps({"interpreter": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3],
                  "path": os.environ["PATH"]}))
"""

RunInside = Callable[[List[str]], "Answer"]


class Answer(NamedTuple):
    code: int
    lines: List[str]


class ImagePython(NamedTuple):
    interpreter: str
    version: str
    path: str  # the image's own PATH
    platform: str
    packages: Dict[str, str]


def find_image_python(image: Image, wanted: Optional[str], place: Place, run: RunInside) -> ImagePython:
    """Return the image's Python, `wanted` by name or path, else `python` or `python3`.

    Args:
        place: keeps the answer for as long as the image's content is the same.

    Raises:
        SubmitRejected: the image has none that runs can use.
    """
    key = json.dumps([image.id, wanted])
    known = place.read("python.json") or {}
    if known.get("key") != key:
        answer = run(["/bin/sh", "-c", _FIND, "sh", wanted or "python", _ASK + PACKAGES_SCRIPT])
        known = {"key": key, **_parse(image, wanted, answer)}
        place.folder.mkdir(mode=0o700, exist_ok=True)
        place.write("python.json", known)
    return ImagePython(*(known[name] for name in ImagePython._fields))


def _parse(image: Image, wanted: Optional[str], answer: Answer) -> Dict[str, Any]:
    told: Dict[str, Any] = {}
    for line in answer.lines:
        told.update(_object(line))
    version = str(told.get("python", ""))
    if version and tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise _unusable(image, f"Its Python is {version}; runs need {'.'.join(map(str, OLDEST))} or newer.")
    if answer.code != 0 or not set(ImagePython._fields) <= {*told, "version"}:
        said = "\n".join(line for line in answer.lines if line.strip())[-2000:]
        name = os.path.basename(wanted or "python")
        raise _unusable(image, f"Asked for its `{name}`, it exited with {answer.code}. {said}".strip())
    return {**told, "version": version}


def _object(line: str) -> Dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _unusable(image: Image, why: str) -> SubmitRejected:
    return SubmitRejected(
        f"The image `{image.name}` cannot run the script.",
        why=why,
        hint="Name an image with a Python in env.docker.base_image (`python:3.11-slim`), and with "
        "env.python.interpreter_path which one it is (user_managed_dependencies = True).",
    )
