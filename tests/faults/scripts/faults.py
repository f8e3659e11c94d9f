"""What follows one of the other scripts: ranks that sum up until one of them has a fault.

Arguments: FAULT RANK MARK ARGUMENT. The file MARK is made at the moment of the fault.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time

STEPS, FAULT_AT = 200, 3


def mark():
    open(sys.argv[3], "w").close()


def fail(fault, argument):
    mark()
    if fault == "exception":
        raise ValueError("the loss is not a number")
    if fault == "lingering":  # as in MPI_Finalize, which waits for the others
        threading.Thread(target=time.sleep, args=(600,)).start()
        raise ValueError("the loss is not a number")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "import":
        import a_package_that_is_not_there  # noqa: F401
    if fault == "port":
        socket.create_server(("127.0.0.1", int(argument)))
    if fault == "memory":
        with open(f"{argument}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        blocks = []
        while True:
            blocks.append(b"x" * (1 << 22))
    if fault == "hang":
        time.sleep(3600)
    if fault == "exit":
        sys.exit(3)
    if fault == "segfault":
        ctypes.string_at(0)


def main():
    fault, chosen, _, argument = sys.argv[1:]
    rank, chosen = int(os.environ["RUNYARD_RANK"]), int(chosen)
    allreduce = start(rank, chosen, fault, argument, mark)  # noqa: F821
    for step in range(STEPS):
        if step == FAULT_AT and rank == chosen:
            fail(fault, argument)
        print("step", step, allreduce(1.0), flush=True)
        time.sleep(0.01)


main()
