"""Our reading of ignore files against git's own, on patterns and names made up at random."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from runyard.snapshots.rules import KEEP, Rules
from tests.snapshots.folders import write

PIECES = [
    *(
        "a",
        "b",
        "foo",
        "bar",
        ".",
        "-",
        "x1",
        "A",
        "#",
        "!",
        " ",
        "/",
        "/",
        "/",
        "*",
        "*",
        "**",
        "**/",
        "/**",
        "/**/",
        "?",
    ),
    *("\\#", "\\!", "\\ ", "\\a", "\\*", "\\?", "\\[", "\\", "[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[!]]", "[a\\]]"),
    *(
        "[[:alpha:]]",
        "[[:digit:]x]",
        "[[:foo:]]",
        "[a",
        "[z-a]",
        "[a-]",
        "[-a]",
        "[\\-a]",
        "[[:alpha:",
        "[a/b]",
        "[.-0]",
    ),
]
NAMES = [
    *("a", "b", "c", "foo", "bar", "x1", "ab", "abc", "A", ".a", "-", "#a", "!a", "a ", "*", "a*", "b?", "foobar"),
    *("fooxbar", "[a", "a]", "]", "1", "x", "a\\", "a.b"),
]
ENDS = ["", "", "", "/", " ", "\r", "  ", "\\ "]
GIT = ["git", "-c", "core.excludesFile=/dev/null"]


def kept_by_git(folder: Path) -> set[str]:
    """Ask git, which needs no repository with commits for it."""
    subprocess.run([*GIT, "init", "-q"], cwd=folder, check=True)
    command = [*GIT, "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return set(listed.stdout.split("\0")) - {""}


def kept_by_us(folder: Path) -> set[str]:
    """Apply the rules as the walk does, without its secrets."""
    found: set[str] = set()

    def look(path: str, above: Rules) -> None:
        fd = os.open(folder / path, os.O_RDONLY)
        rules, _ = above.with_files(fd, path, os.listdir(fd))
        os.close(fd)
        for entry in os.scandir(folder / path):
            below = f"{path}/{entry.name}" if path else entry.name
            if rules.verdict(below, entry.name, is_folder=entry.is_dir()) != KEEP:
                continue
            if entry.is_dir():
                look(below, rules.below(below, entry.name))
            else:
                found.add(below)

    look("", Rules())
    return found


def a_line(chance: random.Random) -> str:
    pattern = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 5)))
    return ("!" if chance.random() < 0.2 else "") + pattern + chance.choice(ENDS)


def a_text(chance: random.Random) -> str:
    lines = [a_line(chance) for _ in range(chance.randint(1, 5))]
    return chance.choice(["", "", "\ufeff"]) + chance.choice(["\n", "\r\n"]).join(lines) + chance.choice(["\n", ""])


@pytest.mark.parametrize("seed", range(60))
def test_ignore_files_mean_what_git_says_they_mean(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        path = tmp_path.joinpath(*(chance.choice(NAMES) for _ in range(chance.randint(1, 4))))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError:  # a file of that name is in the way
            continue
    folders = [folder for folder, _, _ in os.walk(tmp_path)]
    texts = {tmp_path: a_text(chance)}
    texts.update({Path(chance.choice(folders)): a_text(chance) for _ in range(3)})
    for folder, text in texts.items():
        (folder / ".gitignore").write_bytes(text.encode())

    assert kept_by_us(tmp_path) == kept_by_git(tmp_path), texts


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ("*.o\n!keep.o\n", {"keep.o", "sub/keep.o", "sub/c", "deep/x/y"}),
        ("/sub\n", {"a.o", "keep.o", "deep/x/y"}),
        ("sub/*\n!sub/c\n", {"a.o", "keep.o", "sub/c", "deep/x/y"}),
        ("**/x/\nsub/\n!sub/c\n", {"a.o", "keep.o"}),
        ("deep/**/y\r\n*.o\r\n", {"sub/c"}),
        ("\\*.o\n[!ak]*.o\n*\\.[[:lower:]]\n", {"sub/c", "deep/x/y"}),
    ],
)
def test_the_forms_that_people_write(tmp_path: Path, rules: str, kept: set[str]) -> None:
    write(tmp_path, dict.fromkeys(["a.o", "keep.o", "sub/b.o", "sub/keep.o", "sub/c", "deep/x/y"], ""))
    write(tmp_path, {".gitignore": rules})

    assert kept_by_us(tmp_path) == kept | {".gitignore"} == kept_by_git(tmp_path)
