"""Resolve the package set of every curated environment on today's index; print what each gives, fail where none is."""

from __future__ import annotations

import subprocess
import sys

from runyard.sdk.environments.registry import package_sets


def resolve(packages: tuple[str, ...], python: str) -> subprocess.CompletedProcess[str]:
    command = ["uv", "pip", "compile", "--no-header", "--no-annotate", "--python-version", python, "--quiet", "-"]
    return subprocess.run(command, input="\n".join(packages), capture_output=True, text=True, check=False, cwd="/")


def main(python: str = "3.11") -> int:
    failed = 0
    for packages, names in package_sets().items():
        done = resolve(packages, python)
        failed += done.returncode != 0
        pins = [line for line in done.stdout.split() if "==" in line]
        named = {package.partition("[")[0].rstrip("0123456789.<>=~") for package in packages}
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {', '.join(names)}")
        print(f"     {' '.join(pin for pin in pins if pin.partition('==')[0] in named) or done.stderr.strip()[-800:]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
