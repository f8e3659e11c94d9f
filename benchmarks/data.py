"""Data: a dataset of 10,000 files mounted, 1 GB uploaded to a folder, and the CPU that an object of a bucket costs.

Each against what a user would have done instead: reading the files' names, `cp` and `sha256sum`, s3fs. The bucket is on
moto's S3 server on this machine; only the client's CPU is counted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Callable

from figures import report

ROOT = Path(__file__).parents[1]
FOLDERS, FILES, FILE_BYTES = 100, 100, 10_000
BIG = 1_000_000_000
ROUNDS = 7
UPLOADS = 5
OBJECTS, OBJECT_BYTES = 300, 2_000
S3FS = ("s3fs==2026.9.0",)
BUCKET = "bench"
MEMORY = "/dev/shm"  # for the files on both sides of a bucket's: making them on a disk is not what is measured
BY_OBSTORE = """\
import json, os, sys, time
from runyard.data.object_storage import ObjectStorage
from runyard.data.transfer import download, upload
url, bucket, source, target = sys.argv[1:]
keys = {"access_key_id": "testing", "secret_access_key": "testing"}
options = {"endpoint": url, "region": "us-east-1", **keys}
storage = ObjectStorage({"type": "s3", "bucket": bucket, "options": options}, lambda name: "{}")
files = [(os.path.join(source, name), f"ours/{name}") for name in sorted(os.listdir(source))]
storage.find_file("warm")
start = time.process_time()
upload(storage, files, overwrite=True)
middle = time.process_time()
download(storage, storage.iter_files("ours"), lambda name: os.path.join(target, name), overwrite=True)
print(json.dumps([middle - start, time.process_time() - middle]))
"""
BY_S3FS = """\
import json, os, sys, time
import s3fs
url, bucket, source, target = sys.argv[1:]
fs = s3fs.S3FileSystem(key="testing", secret="testing", endpoint_url=url, client_kwargs={"region_name": "us-east-1"})
files = [os.path.join(source, name) for name in sorted(os.listdir(source))]
names = [f"{bucket}/theirs/{os.path.basename(path)}" for path in files]
fs.exists(f"{bucket}/warm")
start = time.process_time()
fs.put(files, names)
middle = time.process_time()
fs.get(names, [os.path.join(target, name) for name in names])
print(json.dumps([middle - start, time.process_time() - middle]))
"""


def main(parts: list[str]) -> None:
    """Measure all, or the parts named."""
    sys.path.insert(0, str(ROOT))  # for the servers that the tests have
    with tempfile.TemporaryDirectory(prefix="ry-data-") as folder:
        for part in (mount, upload, objects):
            if not parts or part.__name__ in parts:
                part(Path(folder))


def mount(folder: Path) -> None:
    """All of a folder in place, a pattern as links, against a walk that looks at each file once."""
    store = folder / "store"
    for number in range(FOLDERS):
        (store / f"data/{number}").mkdir(parents=True)
        for file in range(FILES):
            (store / f"data/{number}/{file}.bin").write_bytes(bytes(FILE_BYTES))
    walks = [timed(lambda: looked_at(store / "data")) for _ in range(ROUNDS)]
    reference = f"os.walk with a stat of each file {statistics.median(walks):.1f} ms"
    for name, path, target in (("in_place", "data/**", "<= 100"), ("links", "data/*/*.bin", "")):
        spans, used = [], 0
        for number in range(ROUNDS):
            before = disk_bytes(folder)
            spans.append(timed(partial(mounted, store, path, folder / f"{name}-{number}")))
            used = max(used, disk_bytes(folder) - before)
        report(f"mount_10k.{name}", statistics.median(spans), "ms", target=target, reference=reference)
        report(f"mount_10k.{name}_best", min(spans), "ms", reference=f"min of walks {min(walks):.1f} ms")
        report(f"mount_10k.{name}_bytes_of_files", used, "bytes", target="== 0")


def mounted(store: Path, path: str, side: Path) -> None:
    from runyard.core.specs import MOUNT, DatasetInputSpec, DatasetSpec, DataSource
    from runyard.data.datasets import bring_dataset
    from runyard.data.folder import FolderStorage
    from runyard.data.references import Node

    given = DatasetInputSpec(DatasetSpec("id", sources=[DataSource("store", path)]), MOUNT)
    node = Node(str(side), str(side), lambda text: None, lambda text: None)
    view = bring_dataset("images", given, lambda name: FolderStorage({"path": str(store)}), node)
    assert view.facts["files"] == FOLDERS * FILES, view


def looked_at(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            os.stat(os.path.join(parent, name))


def disk_bytes(folder: Path) -> int:
    """Return the bytes that regular files take below a folder, as `du` counts them."""
    paths = (os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return sum(os.lstat(path).st_blocks * 512 for path in paths if not os.path.islink(path))


def upload(folder: Path) -> None:
    """In turns with the reference, so that other work on the machine slows both alike."""
    from runyard.data.folder import FolderStorage
    from runyard.data.transfer import upload as send

    source, copy, store = folder / "big", folder / "copy", folder / "uploads"
    store.mkdir()
    with open(source, "wb") as out:
        for _ in range(BIG // 1_000_000):
            out.write(os.urandom(1_000_000))
    storage = FolderStorage({"path": str(store)})
    ours, theirs = [], []
    for _ in range(UPLOADS):
        theirs.append(timed(lambda: copied(source, copy)))
        ours.append(timed(lambda: send(storage, [(str(source), "big")], overwrite=True)))
        copy.unlink()
        (store / "big").unlink()
    speeds = [their / our for their, our in zip(theirs, ours)]
    spans = f"{statistics.median(theirs):.0f} ms, ours {statistics.median(ours):.0f} ms"
    report("upload_1gb.speed", statistics.median(speeds), "x", target=">= 0.8", reference=f"cp and sha256sum {spans}")
    source.unlink()


def copied(source: Path, copy: Path) -> None:
    subprocess.run(["cp", source, copy], check=True)
    subprocess.run(["sha256sum", copy], check=True, stdout=subprocess.DEVNULL)


def objects(folder: Path) -> None:
    from tests.data.object_servers import s3_server
    from tests.e2e.frameworks import interpreter_with

    other = interpreter_with(S3FS)
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else folder) as here, s3_server() as url:
        urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
        ours, theirs = moved(Path(here), other, url)
    for index, way in enumerate(("upload", "download")):
        our, their = (statistics.median(times[index] for times in all_) for all_ in (ours, theirs))
        reference = f"s3fs {their / OBJECTS * 1e3:.2f} ms of CPU an object, ours {our / OBJECTS * 1e3:.2f} ms"
        report(f"object_cpu.{way}", our / their, "x", target="<= 0.3334", reference=reference)


def moved(here: Path, other: str, url: str) -> tuple[list[list[float]], list[list[float]]]:
    """Return the CPU seconds of uploads and downloads, ours and theirs, in turns."""
    source = here / "objects"
    source.mkdir()
    for number in range(OBJECTS):
        (source / f"{number}.bin").write_bytes(os.urandom(OBJECT_BYTES))
    ours, theirs = [], []
    for number in range(ROUNDS):
        where = [url, BUCKET, str(source), str(here / f"back-{number}")]
        theirs.append(client_cpu(other, BY_S3FS, where))
        ours.append(client_cpu(sys.executable, BY_OBSTORE, where))
    return ours, theirs


def client_cpu(interpreter: str, code: str, arguments: list[str]) -> list[float]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([interpreter, "-c", code, *arguments], check=True, stdout=subprocess.PIPE, env=environ)
    return [float(seconds) for seconds in json.loads(done.stdout)]


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main(sys.argv[1:])
