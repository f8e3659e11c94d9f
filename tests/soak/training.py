"""A user's script: logs, prints, saves and uploads, and keeps a ledger of what succeeded where nothing breaks.

python train.py LEDGER SECONDS SEED
"""

import hashlib
import os
import random
import sys
import time

from azureml.core import Run

LEDGER, SECONDS, SEED = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
dice = random.Random(SEED)
ledger = open(LEDGER, "a", buffering=1)  # noqa: SIM115  # until the end
run = Run.get_context()


def note(*words):
    ledger.write(" ".join(map(str, words)) + "\n")


def attempt(what, *arguments, **options):
    """Do it; what was refused is no promise of ours. Half of the scripts take no care, and end with the error."""
    try:
        what(*arguments, **options)
        return True
    except Exception as error:
        note("refused", type(error).__name__)
        if SEED % 2 and not isinstance(error, OSError):
            raise
        return False


def some_bytes():
    """Mostly a little; now and then more than one chunk."""
    return dice.getrandbits(8 * 64).to_bytes(64, "little") * (80_000 if dice.random() < 0.001 else dice.randint(1, 100))


def save(name):
    data = some_bytes()
    digest = hashlib.sha256(data).hexdigest()
    with open(name + ".part", "wb") as file:
        file.write(data)
    note("next", name, digest)
    os.replace(name + ".part", name)
    note("file", name, digest)


def upload(name):
    data = some_bytes()
    digest = hashlib.sha256(data).hexdigest()
    with open("scratch", "wb") as file:
        file.write(data)
    note("next", name, digest)
    run.upload_file(name, "scratch")
    note("file", name, digest)


def have_a_child(name):
    child = run.child_run(name)
    for m in range(20):
        child.log("m", m)
        note("child", child.id, m)
    child.complete()


note("start", run.id)
os.makedirs("outputs", exist_ok=True)
ends_at, n = time.monotonic() + SECONDS, 0
while time.monotonic() < ends_at:
    if attempt(run.log, "n", n):
        note("point", n)
    if attempt(print, f"<{n}>", flush=True):  # a full disk may cut a line, and the next one follows on it
        note("line", n)
    if n % 40 == 7:
        attempt(save, f"outputs/step-{n}.bin")
        attempt(save, "outputs/last.bin")
    if n % 60 == 11:
        attempt(upload, f"sent/step-{n}.bin")
    if n % 500 == 123:
        attempt(have_a_child, f"child-{n}")
    n += 1
    time.sleep(dice.uniform(0.0, 0.03))
note("end", n)
