"""A stand-in for a container runtime: keeps the words and input of each call, and runs what it is told on the host."""

from __future__ import annotations

from pathlib import Path

_SCRIPT = r"""#!/bin/sh
here={folder}
fail() {{ echo "$1" >&2; exit "$2"; }}
image_of() {{ mkdir -p "$here/images"; echo "$here/images/$(echo "$1" | tr '/:' '__')"; }}
printf '%s\n' "$(echo "$*" | tr '\n' ' ')" >> "$here/calls"
while :; do case "$1" in --*) [ "$1" = --config -o "$1" = --log-level ] && shift; shift ;; *) break ;; esac; done
for last; do :; done
case "$1" in
info) [ ! -e "$here/broken" ] || fail "cannot connect" 1; echo "{info}" ;;
image) cat "$(image_of "$last")" 2>/dev/null || fail "no such image" 1 ;;
login) cat > "$here/password"; [ ! -e "$here/refuse" ] || fail "unauthorized: $(cat "$here/password")" 1 ;;
pull) [ ! -e "$here/offline" ] || fail "no route to registry" 125; echo sha256:pulled > "$(image_of "$last")" ;;
build) cat > "$here/dockerfile"
    ! grep -q FAIL "$here/dockerfile" || fail "step 1 failed" 1
    while [ "$1" != --tag ]; do shift; done
    echo sha256:built > "$(image_of "$2")" ;;
run) while [ "$1" != --entrypoint ]; do shift; done; shift 3; exec "$@" ;;
esac
"""


class FakeRuntime:
    def __init__(self, folder: Path, *, name: str = "podman", info: str = "false") -> None:
        self.folder = folder
        self.program = folder / "bin" / name
        self.program.parent.mkdir(exist_ok=True)
        self.program.write_text(_SCRIPT.format(folder=folder, info=info))
        self.program.chmod(0o755)

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": f"{self.program.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)}

    def calls(self) -> list[str]:
        return [line.strip() for line in (self.folder / "calls").read_text().splitlines()]

    def have(self, image: str) -> None:
        (self.folder / "images").mkdir(exist_ok=True)
        name = image.replace("/", "_").replace(":", "_")
        (self.folder / "images" / name).write_text("sha256:local\n")

    def mark(self, name: str) -> None:
        (self.folder / name).touch()
