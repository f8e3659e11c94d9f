"""Scripts that write journals by hand, so that tests of the supervisor need nothing of the SDK."""

from __future__ import annotations

# Counts 0, 1, 2… into a journal until the file `stop` is there, and says the last one in `count`.
COUNTER = """
import os, struct, time
from runyard.core.formats import journal
folder, pid = os.environ["RUNYARD_RUN_FOLDER"], os.getpid()
writer = "r0-%d-%s" % (pid, os.urandom(4).hex())

def open_segment(number, run=os.environ["RUNYARD_RUN_ID"]):
    path = "%s/journal/%s.%d.journal" % (folder, writer, number)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    head = {"format": 1, "run": run, "attempt": 1, "writer": writer, "segment": number, "rank": 0, "role": "worker",
            "pid": pid, "boot_id": "", "wall_ns": time.time_ns(), "t": time.monotonic_ns()}
    os.write(fd, journal.pack_long(journal.HEADER, head))
    os.write(fd, journal.pack_long(journal.NAME, {"id": 1, "name": "n"}))
    return fd

def number(fd, value):
    os.write(fd, journal.pack_number(journal.FLOAT, 0, 0, 1, 0, time.monotonic_ns(), value))
"""

UNTIL_STOPPED = (
    COUNTER
    + """
fd, n = open_segment(0), 0
print("go", flush=True)
while not os.path.exists("stop"):
    for _ in range(50):
        number(fd, float(n))
        n += 1
    print(n, flush=True)
    time.sleep(0.002)
open("count", "w").write(str(n))
"""
)
