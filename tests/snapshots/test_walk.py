from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runyard.core.errors import SnapshotRejected
from runyard.core.formats.tree import FileEntry, FolderEntry, LinkEntry, decode_tree
from runyard.snapshots.restore import restore
from runyard.snapshots.take import Snapshot, take_snapshot
from runyard.testing.artifact_store import LocalContent
from tests.snapshots.folders import all_bytes, later, on_disk, stored, write

Take = Callable[..., Snapshot]


def run_python(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach; pytest's own are shared by workers and closed to others."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_files_folders_links_and_modes_are_kept(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"train.py": "code", "run.sh": "#!/bin/sh", "empty": "", "data/deep/x": "1", "void": None})
    (project / "run.sh").chmod(0o750)
    (project / "void").chmod(0o711)
    (project / "link").symlink_to("data/deep/x")
    (project / "data" / "up").symlink_to("../train.py")
    (project / "data" / "dangling").symlink_to("not/there")
    snapshot = take()

    assert stored(content, snapshot.root) == {
        "train.py": b"code",
        "run.sh": b"#!/bin/sh",
        "empty": b"",
        "data/": None,
        "data/deep/": None,
        "data/deep/x": b"1",
        "data/up": "-> ../train.py",
        "data/dangling": "-> not/there",
        "void/": None,
        "link": "-> data/deep/x",
    }
    assert (snapshot.files, snapshot.size_bytes, snapshot.changed_files) == (7, 14, 7)
    modes = {
        e.name: e.mode for e in decode_tree(content.tree(snapshot.root)[snapshot.root]) if not isinstance(e, LinkEntry)
    }
    assert modes["run.sh"] == 0o750 and modes["void"] == 0o711


def test_setuid_setgid_and_sticky_bits_are_dropped(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"tool": "x", "folder": None})
    (project / "tool").chmod(0o6755)
    (project / "folder").chmod(0o3775)
    root = take().root
    entries = {entry.name: entry for entry in decode_tree(content.tree(root)[root])}
    tool, folder = entries["tool"], entries["folder"]

    assert isinstance(tool, FileEntry) and tool.mode == 0o755
    assert isinstance(folder, FolderEntry) and folder.mode == 0o775


def test_an_empty_source_is_a_snapshot(project: Path, content: LocalContent, take: Take) -> None:
    snapshot = take()

    assert (snapshot.files, snapshot.size_bytes) == (0, 0)
    assert content.tree(snapshot.root) == {snapshot.root: b'{"entries":[]}'}


def test_the_same_content_elsewhere_is_the_same_snapshot(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    write(project, {"a.py": "1", "sub/b.py": "2"})
    write(tmp_path / "copy", {"sub/b.py": "2", "a.py": "1"})
    other = take_snapshot(tmp_path / "copy", LocalContent(), home=tmp_path / "home2")

    assert take().id == other.id


def test_names_that_are_not_utf_8_keep_their_bytes(
    project: Path, content: LocalContent, take: Take, tmp_path: Path
) -> None:
    odd = [
        b"caf\xe9",
        b"\xff\xfe",
        "日本.py".encode(),
        b"new\nline",
        b" space ",
        b"-rf",
        b"a\\b",
        b'q"uote',
        b"$(touch x)",
        b"*",
    ]
    for name in odd:
        (project / os.fsdecode(name)).write_bytes(name)
    os.mkdir(os.fsencode(project) + b"/d\xe9")
    snapshot = take()
    restore(snapshot.root, content, tmp_path / "out")

    assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == sorted([*odd, b"d\xe9"])
    assert all((tmp_path / "out" / os.fsdecode(name)).read_bytes() == name for name in odd)
    assert take().id == snapshot.id


ODD_FOLDERS = ["$(touch x)", "-rf", "new\nline", "; rm x", "`touch x`", "a b", "--help", "~", "*"]


@pytest.mark.parametrize("name", ODD_FOLDERS, ids=repr)
def test_a_project_folder_may_have_any_name(
    tmp_path: Path, content: LocalContent, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "odd" / name
    write(source, {"train.py": "x"})
    monkeypatch.chdir(tmp_path / "odd")
    snapshot = take_snapshot(name, content, home=tmp_path / "home")
    restore(snapshot.root, content, tmp_path / "out" / name)

    assert on_disk(tmp_path / "out" / name) == on_disk(source)
    assert os.listdir(tmp_path / "odd") == [name] and os.listdir(source) == ["train.py"]
    assert sorted(os.listdir(tmp_path)) == ["home", "odd", "out"]


@pytest.mark.parametrize("name", ODD_FOLDERS, ids=repr)
def test_the_control_by_a_shell_no_such_folder_is_read(tmp_path: Path, name: str) -> None:
    """A44: each of these names misleads a program that hands it to a shell as it is."""
    write(tmp_path, {f"{name}/train.py": "x", "bystander/train.py": "y"})
    done = subprocess.run(
        ["sh", "-c", f"cat {name}/train.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )

    assert done.stdout != b"x"


def test_hard_links_are_plain_files(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"one": "same"})
    os.link(project / "one", project / "two")

    assert stored(content, take().root) == {"one": b"same", "two": b"same"}


def test_fifos_sockets_and_devices_are_skipped_with_a_note(
    project: Path, content: LocalContent, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"train.py": "x"})
    os.mkfifo(project / "pipe")
    monkeypatch.chdir(project)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("sock")
    if os.getuid() == 0:
        os.mknod(project / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    snapshot = take()
    listener.close()

    assert stored(content, snapshot.root) == {"train.py": b"x"}
    assert "Skipped `pipe`: it is a FIFO, which a snapshot cannot hold." in snapshot.notes
    assert any("`sock`: it is a socket" in note for note in snapshot.notes)
    assert os.getuid() != 0 or any("`null`: it is a device" in note for note in snapshot.notes)


@pytest.mark.parametrize(
    ("where", "target"),
    [
        ("link", "/etc/passwd"),
        ("link", ".."),
        ("link", "../outside/secret"),
        ("sub/link", "../../outside/secret"),
        ("sub/link", "../sub/../../outside"),
        ("sub/link", "/"),
        ("link", "./../outside"),
        ("link", "sub/../../project/train.py"),
        ("link", "missing/../../outside"),
    ],
)
def test_a_link_out_of_the_tree_is_refused_by_name(
    project: Path, content: LocalContent, take: Take, where: str, target: str
) -> None:
    write(project, {"train.py": "x", "sub/a": ""})
    write(project.parent, {"outside/secret": "canary"})
    (project / where).symlink_to(target)

    with pytest.raises(SnapshotRejected) as caught:
        take()
    assert f"`{where}`" in caught.value.what and f"`{target}`" in caught.value.what
    assert f"/{where}" in caught.value.hint
    assert b"canary" not in all_bytes(content)
    (project / ".amlignore").write_text(f"/{where}\n")
    assert take().files == 3, "the hint works"


def test_a_link_that_leaves_through_another_link_is_refused(project: Path, take: Take) -> None:
    """Taken as text, `deep/a/up/../../x` stays inside; followed as the kernel does, it ends far above."""
    write(project, {"deep/a/x": ""})
    (project / "deep" / "a" / "up").symlink_to("../..")
    (project / "escape").symlink_to("deep/a/up/../../x")
    followed = os.path.join(os.path.realpath(project / "deep" / "a" / "up"), "..", "..", "x")
    assert os.path.normpath("deep/a/up/../../x") == "deep/x", "the control: the naive check sees a path inside"
    assert not os.path.abspath(followed).startswith(f"{project}/")

    with pytest.raises(SnapshotRejected, match="`escape` leads out"):
        take()


def test_links_that_stay_inside_by_odd_ways_are_kept(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"a/b/file": "x"})
    (project / "a" / "top").symlink_to("..")
    (project / "a" / "b" / "around").symlink_to("../top/a/b/file")
    (project / "loop").symlink_to("loop")
    (project / "ping").symlink_to("a/../pong")
    (project / "pong").symlink_to("a/../ping")

    assert sum(str(value).startswith("->") for value in stored(content, take().root).values()) == 5


def test_an_absolute_link_into_the_folder_is_kept_as_a_relative_one(
    project: Path, tmp_path: Path, content: LocalContent, take: Take
) -> None:
    write(project, {"data/x": "1", "a/b/c": ""})
    (tmp_path / "alias").symlink_to(project)
    (project / "top").symlink_to(project / "data")
    (project / "a" / "b" / "deep").symlink_to(project / "data" / "x")
    (project / "a" / "all").symlink_to(project)
    (project / "a" / "other").symlink_to(tmp_path / "alias" / "data")
    found = stored(content, take().root)

    assert {name: found[name] for name in ("top", "a/b/deep", "a/all", "a/other")} == {
        "top": "-> data",
        "a/b/deep": "-> ../../data/x",
        "a/all": "-> ../.",
        "a/other": "-> ../data",
    }


def test_the_lines_that_the_hint_names_let_a_folder_with_links_out_be_sent(
    project: Path, tmp_path: Path, content: LocalContent, take: Take
) -> None:
    write(project, {".gitignore": "*.log\n", "train.py": "", "a.log": "", "tools/own.py": "", ".amlignore": "!x\n"})
    for name in ("tools/a", "tools/b", "tools/c", "odd[1] ", "up"):
        (project / name).symlink_to(tmp_path if name != "up" else "..")
    with pytest.raises(SnapshotRejected) as failure:
        take()
    lines = re.findall(r"`([^`]*)`", failure.value.hint)

    assert failure.value.what.startswith("5 links lead out of the source folder: `odd[1] ` to ")
    assert lines == [".gitignore", "/odd\\[1]\\ ", "/up", "/tools/"]
    with open(project / lines[0], "a") as file:
        file.write("\n".join(lines[1:]) + "\n")
    assert set(stored(content, take().root)) == {".amlignore", ".gitignore", "train.py"}


def test_a_link_that_starts_to_lead_out_is_refused_in_the_next_snapshot(project: Path, take: Take) -> None:
    write(project, {"a/b/x": "", "a/link_target": ""})
    (project / "a" / "b" / "link").symlink_to("../link_target/../../y")
    take()
    (project / "a" / "link_target").unlink()
    (project / "a" / "link_target").symlink_to("../..")
    # Nothing in `a/b` changed, yet its link leads elsewhere now; both links are checked anew.
    with pytest.raises(SnapshotRejected, match="out of the source folder"):
        take()


AS_NOBODY = """
    import os, sys
    from pathlib import Path
    from runyard.core.errors import SnapshotRejected
    from runyard.snapshots.take import take_snapshot
    from runyard.testing.artifact_store import LocalContent
    if os.getuid() == 0:  # permissions do not apply to root
        os.setgid(65534)
        os.setuid(65534)
    try:
        take_snapshot(sys.argv[1], LocalContent(), home=Path(sys.argv[2]))
    except SnapshotRejected as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("path", "mode", "fix"),
    [("sub/secret.bin", 0, "chmod u+r "), ("sub", 0, "chmod u+rx "), ("sub", 0o400, "chmod u+rx ")],
)
def test_what_cannot_be_read_is_named_with_what_to_type(open_folder: Path, path: str, mode: int, fix: str) -> None:
    project = open_folder / "p"
    write(project, {"sub/secret.bin": "x"})
    if os.getuid() == 0:
        for place in (project, project / "sub", project / "sub" / "secret.bin"):
            os.chown(place, 65534, 65534)
    (project / path).chmod(mode)
    said = run_python(AS_NOBODY, project, open_folder / "home")

    assert f"`{path}` cannot be read" in said and "Permission denied" in said
    assert f"`{fix}'{path}'`" in said and f"`/{path}` to `.amlignore`" in said
    (project / path).chmod(0o700)


def test_a_source_that_is_missing_or_a_file_is_refused(tmp_path: Path, content: LocalContent) -> None:
    write(tmp_path, {"file": ""})
    for source in ("nowhere", "file"):
        with pytest.raises(SnapshotRejected, match=f"{source}` cannot be opened") as caught:
            take_snapshot(tmp_path / source, content, home=tmp_path / "home")
        assert "source_directory" in caught.value.hint


def test_a_source_given_as_a_link_is_the_folder_behind_it(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    write(project, {"a.py": "x"})
    (tmp_path / "alias").symlink_to(project)

    assert take_snapshot(tmp_path / "alias", content, home=tmp_path / "home").id == take().id


def test_folders_that_are_too_deep_are_refused_by_name(project: Path, take: Take) -> None:
    fd = os.open(project, os.O_RDONLY)
    for _ in range(205):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)

    with pytest.raises(SnapshotRejected, match="lies too deep") as caught:
        take()
    assert "200 levels" in caught.value.why


def test_a_large_file_travels_in_chunks_with_bounded_memory(tmp_path: Path) -> None:
    """512 MiB, mostly a hole, so that the disk need not have it; tests/e2e has a file of 2 GiB."""
    project = tmp_path / "p"
    project.mkdir()
    with open(project / "big.bin", "wb") as file:
        file.truncate(512 << 20)
        for at in (0, 256 << 20, (512 << 20) - 5):
            file.seek(at)
            file.write(b"mark!")
    code = """
        import sys, time
        from pathlib import Path
        from runyard.snapshots.take import take_snapshot
        from runyard.testing.artifact_store import LocalContent
        content = LocalContent()
        later = lambda: time.time_ns() + 60_000_000_000
        snapshot = take_snapshot(sys.argv[1], content, home=Path(sys.argv[2]), clock=later)
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(snapshot.files, snapshot.size_bytes, int(peak.split()[1]) // 1024)
        print("large" in " ".join(snapshot.warnings))
    """
    first, second = run_python(code, project, tmp_path / "home").splitlines()
    files, size, peak_mb = map(int, first.split())

    assert (files, size) == (1, 512 << 20)
    assert peak_mb < 200
    assert second == "True"


def test_a_large_tree_is_taken_with_a_warning_that_names_the_biggest(project: Path, take: Take) -> None:
    with open(project / "model.bin", "wb") as file:
        file.truncate(310_000_000)
    write(project, {"data/big/x.csv": "0" * 2_000_000, "code/a.py": "x"})
    snapshot = take()

    (warning,) = snapshot.warnings
    assert "312.0 MB in 3 files" in warning
    assert "`model.bin` 310.0 MB" in warning and "`data/` 2.0 MB" in warning and ".amlignore" in warning


def test_many_new_files_are_taken_with_a_warning_once(project: Path, content: LocalContent, take: Take) -> None:
    for index in range(2001):
        (project / f"f{index}").write_text(str(index))
    first = take()

    assert first.files == 2001 and "2,001 new or changed" in first.warnings[0]
    assert take().warnings == [] and content.calls[-1] == ("put_snapshot", 1)


def test_notes_about_many_names_stay_short(project: Path, take: Take) -> None:
    for index in range(30):
        (project / f"k{index:02}.pem").write_text("x")
    (note,) = take().notes

    shown = ", ".join(f"`k{index:02}.pem`" for index in range(10))
    assert f"a secret: {shown} and 20 more. " in note


def test_a_snapshot_of_a_settled_clock_reads_nothing_again(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"a": "1", "b/c": "2"})
    take(clock=later)
    content.calls.clear()

    assert take(clock=later).changed_files == 0
    assert content.calls == [("put_snapshot", 1)]
