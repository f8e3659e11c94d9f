"""Read a pip requirements file into the lines that an environment keeps: one requirement or option each, no file."""

from __future__ import annotations

import os
import re
from typing import Iterator, List, NamedTuple, Sequence, Tuple

from runyard.sdk.exceptions import UserErrorException

_MAX_BYTES = 1 << 20
_COMMENT = re.compile(r"(^|\s)#.*$")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_OPTION = re.compile(r"(--[a-z-]+|-[a-zA-Z])\s*=?\s*(.*)")
_LONG = {
    "-r": "--requirement",
    "-c": "--constraint",
    "-e": "--editable",
    "-i": "--index-url",
    "-f": "--find-links",
}
_KEPT = {
    "--index-url", "--extra-index-url", "--find-links", "--no-index", "--pre", "--trusted-host", "--no-binary",
    "--only-binary", "--prefer-binary", "--require-hashes", "--no-deps",
}  # fmt: skip
_WITHOUT_VALUE = {"--no-index", "--pre", "--prefer-binary", "--require-hashes", "--no-deps"}
_LIMITS = re.compile(r"[<>=!~@]")
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_ARCHIVE = re.compile(r"\.(?:whl|zip|tar\.gz|tgz|tar\.bz2)$")


class _Line(NamedTuple):
    text: str
    place: str  # "requirements.txt, line 3"
    folder: str


def read_requirements(path: str) -> List[str]:
    """Return the requirements of `path`, then its options in their long form, as pip reads them.

    `-r` files are read in their place. What a `-c` file says becomes `--constraint REQUIREMENT`. Paths become absolute.

    Raises:
        UserErrorException: a file is missing, names itself, or holds an option that has no meaning here.
    """
    return list(dict.fromkeys(_read(path, "", ())))


def expand_lines(lines: Sequence[str], folder: str, place: str) -> List[str]:
    """Return the pip lines of a conda file with the files that `-r` and `-c` name read in their place."""
    found: List[str] = []
    for text in lines:
        names_file = text.startswith("-") and split_option(text)[0] in ("--requirement", "--constraint")
        is_read = names_file and not _is_limit(text)
        found += _option(_Line(text, place, folder), ()) if is_read else [text]
    return found


def located(text: str, folders: Sequence[str], place: str) -> str:
    """Return a pip line with the path in it made absolute; one that names no path stays as it is.

    Raises:
        UserErrorException: there is no such path in any of the folders.
    """
    is_editable = text.startswith("-") and split_option(text)[0] == "--editable"
    value = split_option(text)[1] if is_editable else text
    if not is_editable and not value.startswith("."):
        return text
    return ("--editable " if is_editable else "") + _absolute(value, folders, place)


def split_option(line: str) -> Tuple[str, str]:
    """Return the option's long name and its value: `-i X`, `-iX` and `--index-url=X` are the same."""
    match = _OPTION.fullmatch(line.strip())
    if match is None:
        return line.strip(), ""
    return _LONG.get(match.group(1), match.group(1)), match.group(2).strip()


def _is_limit(text: str) -> bool:
    """Whether `--constraint …` holds what a file said, not a file's name."""
    return text.startswith("--constraint ") and bool(_LIMITS.search(text))


def _read(path: str, asked_by: str, above: Tuple[str, ...]) -> Iterator[str]:
    whole = os.path.abspath(os.path.expanduser(path))
    if whole in above:
        raise UserErrorException(f"The requirements file {whole} includes itself ({asked_by}). Remove that line.")
    for line in _lines(whole, asked_by):
        if not line.text.startswith("-"):
            yield _requirement(line)
            continue
        yield from _option(line, (*above, whole))


def _option(line: _Line, above: Tuple[str, ...]) -> Iterator[str]:
    name, value = split_option(line.text)
    if not value and name not in _WITHOUT_VALUE:
        raise UserErrorException(f"{line.place}: `{line.text}` has no value, or is no option that is known here.")
    if name == "--requirement":
        yield from _read(_beside(value, line), line.place, above)
    elif name == "--constraint":
        yield from _constraints(_beside(value, line), line.place, above)
    elif name == "--editable":
        yield f"--editable {_located(value, line)}"
    elif name in _KEPT:
        value = _located(value, line) if name == "--find-links" else value
        yield f"{name} {value}".strip()
    else:
        raise UserErrorException(
            f"{line.place}: the option `{name}` has no meaning for an environment.\nKnown: -r, -c, -e, "
            f"{', '.join(sorted(_KEPT))}. Remove the line."
        )


def _constraints(path: str, asked_by: str, above: Tuple[str, ...]) -> Iterator[str]:
    for found in _read(path, asked_by, above):
        if found.startswith("--constraint "):
            yield found
        elif found.startswith("-"):
            raise UserErrorException(
                f"The constraints file {path} holds `{found}`. It may only limit versions: numpy<2."
            )
        elif _LIMITS.search(found):
            yield f"--constraint {found}"


def _requirement(line: _Line) -> str:
    name = line.text.split(" ", 1)[0]
    is_path = name.startswith((".", "/", "~")) or bool(_ARCHIVE.search(name) and "://" not in name and "@" not in name)
    return _located(line.text, line) if is_path else line.text


def _located(value: str, line: _Line) -> str:
    """Return `value` with a path in it made absolute; pip starts from the current folder, people from the file's."""
    return _absolute(value, (os.getcwd(), line.folder), line.place)


def _absolute(value: str, folders: Sequence[str], place: str) -> str:
    if "://" in value or value.startswith(("git+", "hg+", "svn+", "bzr+")):
        return value
    path, bracket, extras = value.partition("[")
    path = os.path.expanduser(path)
    found = [os.path.abspath(os.path.join(folder, path)) for folder in folders]
    there = [place for place in found if os.path.exists(place)]
    if there:  # `.` is everywhere: the folder that can be installed is meant
        return next(filter(_is_installable, there), there[0]) + bracket + extras
    raise UserErrorException(f"{place}: there is no {path!r} in {' or '.join(dict.fromkeys(folders))}.")


def _is_installable(path: str) -> bool:
    return os.path.isfile(path) or any(os.path.exists(os.path.join(path, name)) for name in _PROJECT)


def _beside(value: str, line: _Line) -> str:
    if "://" in value:
        raise UserErrorException(f"{line.place}: {value} is an address. Download the file and name it instead.")
    return os.path.join(line.folder, os.path.expanduser(value))


def _lines(path: str, asked_by: str) -> Iterator[_Line]:
    """Yield the lines that say something: continued ones joined, comments left out, `${VAR}` replaced."""
    waiting, first = "", 0
    for number, text in enumerate(_text(path, asked_by).splitlines(), 1):
        first = first if waiting else number
        is_comment = text.lstrip().startswith("#")  # it ends a continued line, as with pip
        if text.endswith("\\") and not is_comment:
            waiting += text[:-1]
            continue
        whole, waiting = waiting + ("" if is_comment else text), ""
        whole = _VARIABLE.sub(_value_of, _COMMENT.sub("", whole)).strip()
        if whole:
            yield _Line(whole, f"{path}, line {first}", os.path.dirname(path))
    if waiting.strip():
        yield _Line(waiting.strip(), f"{path}, line {first}", os.path.dirname(path))


def _value_of(match: re.Match[str]) -> str:
    return os.environ.get(match.group(1)) or match.group(0)


def _text(path: str, asked_by: str) -> str:
    if not os.path.isfile(path):
        named = f"\n{asked_by} names it." if asked_by else f"\nLooked in {os.getcwd()}."
        raise UserErrorException(f"The requirements file {path!r} does not exist.{named}")
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(_MAX_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UserErrorException(f"The requirements file {path!r} cannot be read: {error}.") from None
    if len(text) > _MAX_BYTES:
        raise UserErrorException(f"The requirements file {path!r} is longer than {_MAX_BYTES} characters.")
    return text
