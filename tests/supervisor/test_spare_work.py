"""A large work folder goes from an ended run to the next run of its snapshot: as the snapshot was, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runyard.core.config.paths import spare_work_folder
from runyard.core.machine.spare_work import drop_spares, list_spares
from runyard.supervisor.lifecycle.spare_work import leave_spare, note_restored, take_spare
from runyard.supervisor.run_folder import RunFolder
from tests.supervisor.supervised import Job, Site

FILES = {f"package_{at % 6}/module_{at}.py": b"VALUE = %d\n" % at for at in range(600)}
SCRIPT = """
import json, os, sys
made = sorted(name for _, folders, files in os.walk(".") for name in [*folders, *files] if "made" in name)
path = "package_1/module_1.py"
print(json.dumps([os.stat(path).st_ctime_ns, open(path).read(), made]), flush=True)
open("package_1/made.txt", "w").write("by a run")
os.makedirs("outputs/made/deep"); os.mkdir("made"); os.symlink("/etc/passwd", "package_2/made")
exec(sys.argv[1])
"""


@pytest.fixture
def leaving(home: Path) -> Iterator[Site]:
    """A site of its own cache, whose runs leave their folders."""
    site = Site(home, keep=False)
    (home / "cache").unlink()
    yield site
    site.close()


def spares_of(home: Path) -> list[str]:
    return list_spares(spare_work_folder(home))


def seen(job: Job) -> list[object]:
    """Return what the script saw: when a file was made, its content, and what an earlier run had made."""
    run = job.wait()
    assert run.status == "Completed", run.error
    found: list[object] = json.loads(job.log())
    return found


def test_the_next_run_gets_the_folder_without_what_the_first_made(leaving: Site) -> None:
    first, second = (seen(leaving.start(SCRIPT, files=FILES, arguments=["import package_1.module_1"])) for _ in "12")
    third = seen(leaving.start(SCRIPT, files=FILES, arguments=["open('package_1/module_1.py', 'w')"]))
    assert spares_of(leaving.home) == []
    fourth = seen(leaving.start(SCRIPT, files=FILES, arguments=["sys.exit"]))
    failed = leaving.start(SCRIPT, files=FILES, arguments=["sys.exit(3)"]).wait()

    assert first == second == third
    assert first[1:] == fourth[1:] == ["VALUE = 1\n", []]
    assert fourth[0] != first[0]
    assert failed.status == "Failed" and len(spares_of(leaving.home)) == 1


class Yard:
    """Work folders that are restored, left and taken without a run around them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.taken = 0

    def restore(self, root: str = "root") -> tuple[RunFolder, Path]:
        folder = self._folder()
        work = Path(folder.at("work"))
        for name, content in FILES.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes(content)
        note_restored(folder, root, str(work))
        return folder, work

    def leave(self, root: str = "root") -> None:
        folder, work = self.restore(root)
        leave_spare(folder, str(self.home), str(work))

    def take(self, root: str = "root") -> Path | None:
        folder = self._folder()
        work = Path(folder.at("work"))
        found = take_spare(folder, str(self.home), root, str(work))
        assert not os.path.lexists(f"{work}.spare")
        assert found == (work / "package_0").exists()
        return work if found else None

    def _folder(self) -> RunFolder:
        self.taken += 1
        path = self.home / "runs" / str(self.taken)
        (path / "work").mkdir(parents=True)
        return RunFolder(str(path))


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def the_spare(yard: Yard) -> Path:
    (path,) = spares_of(yard.home)
    return Path(path)


CHANGES = {
    "same size and times": "s = os.stat(p); open(p, 'w').write('VALUE = 7\\n'); os.utime(p, ns=(0, s.st_mtime_ns))",
    "mapped": "import mmap; f = open(p, 'r+b'); m = mmap.mmap(f.fileno(), 0); m[8:9] = b'7'; m.flush(); m.close()",
    "removed": "os.remove(p)",
    "a link": "os.remove(p); os.symlink('module_7.py', p)",
    "another name of it": "other = os.environ['HOME'] + '/kept'; os.link(p, other); open(other, 'a').write('#')",
    "its mode": "os.chmod(p, 0o600)",
    "a folder's mode": "os.chmod('package_1', 0o711)",
    "the top folder's mode": "os.chmod('.', 0o711)",
    "a folder renamed": "os.rename('package_1', 'package_9')",
    "two folders swapped": "r = os.rename; r('package_1', 'x'); r('package_2', 'package_1'); r('x', 'package_2')",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_folder_in_which_a_run_changed_a_file_is_not_handed_on(yard: Yard, change: str) -> None:
    folder, work = yard.restore()
    code = f"import os\np = 'package_1/module_1.py'\n{change}"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=work, env={"HOME": str(yard.home)}, check=True)
    leave_spare(folder, str(yard.home), str(work))

    assert spares_of(yard.home) == []


def test_a_spare_is_used_once(yard: Yard) -> None:
    yard.leave()
    work = yard.take()
    assert work is not None
    found = {str(path.relative_to(work)): path.read_bytes() for path in work.rglob("*.py")}

    assert found == FILES
    assert yard.take() is None


def test_a_taken_folder_is_handed_on_again(yard: Yard) -> None:
    yard.leave()
    work = yard.take()
    assert work is not None
    (work / "new").write_text("by the second run")
    leave_spare(RunFolder(str(work.parent)), str(yard.home), str(work))
    again = yard.take()

    assert again is not None and not (again / "new").exists()


def test_only_the_same_snapshot_and_umask_get_it(yard: Yard) -> None:
    yard.leave()
    assert yard.take("another root") is None
    before = os.umask(0o077)
    try:
        assert yard.take() is None
    finally:
        os.umask(before)

    assert yard.take() is not None


def change_note(spare: Path, **changes: str) -> None:
    note = json.loads((spare / "spare.json").read_text())
    (spare / "spare.json").write_text(json.dumps({**note, **changes}))


SPOILED: dict[str, Callable[[Path], object]] = {
    "a file changed": lambda spare: (spare / "work/package_1/module_1.py").write_text("VALUE = 7\n"),
    "a file more": lambda spare: (spare / "work/package_1/other.py").write_text(""),
    "a file less": lambda spare: (spare / "work/package_1/module_1.py").unlink(),
    "no folder": lambda spare: shutil.rmtree(spare / "work"),
    "no note": lambda spare: (spare / "spare.json").unlink(),
    "half a note": lambda spare: (spare / "spare.json").write_text('{"digest"'),
    "power was lost": lambda spare: change_note(spare, boot_id="another"),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_spare_that_changed_is_removed_and_not_used(yard: Yard, spoil: Callable[[Path], object]) -> None:
    yard.leave()
    spoil(the_spare(yard))

    assert yard.take() is None
    assert spares_of(yard.home) == []


def test_the_two_newest_stay_and_what_a_killed_removal_left_goes(yard: Yard) -> None:
    left = Path(yard.home, "cache/work/root.22.1234.dropped/work")
    left.mkdir(parents=True)
    for root in ("one", "two", "three"):
        yard.leave(root)

    assert sorted(os.path.basename(path).split(".")[0] for path in spares_of(yard.home)) == ["three", "two"]
    drop_spares(spare_work_folder(yard.home))
    assert spares_of(yard.home) == []


def test_small_folders_are_made_anew(yard: Yard) -> None:
    folder, work = yard.restore()
    os.unlink(folder.at("spare.json"))
    shutil.rmtree(work / "package_5")
    note_restored(folder, "root", str(work))
    for name in ("package_3", "package_4"):
        shutil.rmtree(work / name)
    assert folder.has("spare.json")
    os.unlink(folder.at("spare.json"))
    note_restored(folder, "root", str(work))

    assert not folder.has("spare.json")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@pytest.mark.parametrize(("megabytes", "is_left"), [(6, False), (40, True)], ids=["little room", "room"])
def test_a_spare_takes_no_large_part_of_the_free_space(tmp_path: Path, megabytes: int, is_left: bool) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "none", str(disk)], check=True)
    try:
        yard = Yard(disk)
        folder, work = yard.restore()
        (work / "large").write_bytes(bytes(3 << 20))
        note_restored(folder, "root", str(work))
        leave_spare(folder, str(disk), str(work))

        assert (spares_of(disk) != []) == is_left
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
