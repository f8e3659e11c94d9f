"""Outputs with odd names are stored under them, and what cannot be stored is named on the run."""

from __future__ import annotations

import json
import os
from pathlib import Path

from runyard.core.names import true_file_name
from tests.supervisor.supervised import Site

ODD = [
    b"a%2Fb", b"%2e%2e%2fetc", b"100%25", b"%00", b"a\\b", b"..\\..\\x", b"new\nline", b"\x1b[2J", b"\x7f", b" edge ",
    b"dot.", b"...", b"caf\xe9", b"\xff\xfe", b"\xc0\xaf", b"\xef\x81\x9c", b"semi;colon", b"what?", b"#1", b"C:x",
    b"a:b", b"-rf", "\u202egpj".encode(), "模型".encode(), b"tab\t", b"q\"'`$(x)",
]  # fmt: skip
SCRIPT = f"""\
import os
for at, name in enumerate({ODD!r}):
    os.makedirs(b"outputs/" + name)
    with open(b"outputs/" + name + b"/" + name, "w") as file:
        file.write(str(at))
"""


def test_every_name_that_a_disk_takes_is_stored_and_comes_back(site: Site) -> None:
    job = site.start(SCRIPT)
    run = job.wait()

    assert run.status == "Completed" and run.warnings == []
    stored = {os.fsencode(true_file_name(name)): site.server.file(job.id, name) for name in run.files}
    assert stored == {b"outputs/%b/%b" % (name, name): b"%d" % at for at, name in enumerate(ODD)}
    for name in run.files:
        assert json.dumps(name, ensure_ascii=False).encode("utf-8")
        assert not any(ord(char) < 32 or char in "\x7f\\" for char in name)


def test_what_is_no_file_or_cannot_be_read_is_named_on_the_run(site: Site) -> None:
    script = (
        "import os, socket\n"
        "open('outputs/good', 'w').write('1')\n"
        "for at in range(7): os.mkfifo(f'outputs/pipe{at}')\n"
        "socket.socket(socket.AF_UNIX).bind('outputs/sock')\n"
        "os.symlink('nowhere', 'outputs/dangling')\n"
        "os.mkdir('outputs/real'); open('outputs/real/x', 'w').write('2'); os.symlink('real', 'outputs/latest')\n"
        "os.mkdir('data'); os.symlink('../data', 'outputs/data')\n"
        "at = os.getcwd()\n"
        "os.chdir('outputs')\n"
        "for _ in range(20): os.mkdir('d' * 250); os.chdir('d' * 250)\n"  # a path that no call takes
        "os.chdir(at)\n"
    )
    run = site.start(script).wait()
    assert run.status == "Completed"
    assert sorted(name for name in run.files if len(name) < 100) == ["outputs/good", "outputs/real/x"]
    said = "\n".join(sorted(warning["message"] for warning in run.warnings))
    for text in (
        "1 entry of the work folder is not stored (file that cannot be looked at): 'outputs/dangling'",
        "1 entry of the work folder is not stored (link to a folder): 'outputs/data'.",
        "1 entry of the work folder is not stored (socket): 'outputs/sock'.",
        "7 entries of the work folder are not stored (FIFO): 'outputs/pipe0', 'outputs/pipe1', ",
        " and 2 more.",
        "Could not be stored: 1 entry of the work folder (folder that cannot be read). 'outputs/ddd",
        "File name too long",
        "What could not be stored is kept in ",
    ):
        assert text in said, (text, said)


def test_a_folder_of_mode_000_is_named(tmp_path: Path) -> None:
    """As a user whom modes stop: root reads everything."""
    from tests.supervisor.unprivileged import left_out_of

    (tmp_path / "outputs/private").mkdir(parents=True)
    (tmp_path / "outputs/private/x").write_text("1")
    (tmp_path / "outputs/private").chmod(0o000)
    try:
        [message] = left_out_of(tmp_path)
    finally:
        (tmp_path / "outputs/private").chmod(0o700)

    assert message == ("1 entry of the work folder (folder that cannot be read): 'outputs/private': Permission denied.")
