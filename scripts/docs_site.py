"""Build the site of docs/ into dist/site: `make docs-site`. mkdocs is installed once, below .venv/docs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-docs.lock"
FOLDER = ROOT / ".venv/docs"


def main(words: list[str]) -> int:
    install()
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # a remark on another version of mkdocs
    # With --quiet mkdocs would count no warning, so --strict would find none.
    command = [str(FOLDER / "bin/mkdocs"), "build", "--strict", "--clean", *words]
    done = subprocess.run(command, cwd=ROOT, env=environ, check=False)
    if done.returncode == 0 and not words:
        print(f"The site is in {ROOT / 'dist/site'}. To look at it: python -m http.server -d dist/site 8000")
    return done.returncode


def install() -> None:
    ready = FOLDER / "ready"
    if ready.exists() and ready.read_text() == LOCK.read_text():
        return
    print("Installing requirements-docs.lock …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
    pip = [str(FOLDER / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", str(LOCK)], check=True)
    ready.write_text(LOCK.read_text())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
