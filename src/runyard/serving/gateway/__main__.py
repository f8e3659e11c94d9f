"""`python -m runyard.serving.gateway --folder FOLDER`: the gateway of a server, or of one script.

The process that is started keeps the sockets and starts a second one, with `--fds`, which serves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from runyard.core.errors import RunyardError
from runyard.serving.gateway.keeper import Keeper, has_lock
from runyard.serving.gateway.state import ORPHANED


def main(arguments: list[str]) -> int:
    found = _parse(arguments)
    os.umask(0o077)
    folder = Path(os.path.abspath(found.folder))
    names = [name for given in found.name for name in ("--name", given)]
    try:
        sockets = Path(os.path.abspath(found.sockets)) if found.sockets else None
        tls = ["--certificate", found.certificate, "--key", found.key] if found.certificate else []
        only = ["--only", found.only] if found.only else []
        passed_on = [*names, *tls, *only]
        if found.fds:
            return _serve(folder, found, passed_on)
        keeper = Keeper(folder, sockets_folder=sockets)
        if found.take_fds:
            return keeper.go_on(found.host, [int(fd) for fd in found.take_fds.split(",")], passed_on)
        return keeper.run(
            found.host,
            found.port,
            passed_on,
            _sayer(found.ready_fd),
            workers_port=found.workers_port if tls else 0,
            patience_s=found.patience_s,
        )
    except RunyardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m runyard.serving.gateway", description="The gateway of services.")
    parser.add_argument("--folder", required=True, help="its state, logs and sockets")
    parser.add_argument("--sockets", help="where the sockets go, when the folder's path is too long for them")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--only", default="", help="the port is that of one service: its paths need no prefix")
    parser.add_argument("--name", action="append", default=[], help="a host name that this machine is called by")
    parser.add_argument("--certificate", help="PEM: speak TLS")
    parser.add_argument("--key", help="PEM: the certificate's key")
    parser.add_argument("--workers-port", type=int, default=0, help="for workers on other machines, with TLS")
    parser.add_argument("--patience-s", type=float, default=0.0, help="wait for a gateway that is leaving the folder")
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--fds", help=argparse.SUPPRESS)
    parser.add_argument("--take-fds", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _sayer(fd: int | None) -> Callable[[int], None]:
    def say(port: int) -> None:
        if fd is not None:
            os.write(fd, f"{port}\n".encode())
            os.close(fd)

    return say


def _serve(folder: Path, found: argparse.Namespace, passed_on: list[str]) -> int:
    # The keeper, which runs this module too, needs none of these.
    import logging
    import socket
    import ssl

    from runyard.serving.gateway.process import GatewayProcess, Sockets

    variables = dict(os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    lock, *fds = (int(fd) for fd in found.fds.split(","))
    kept: list[int] = []

    def keep_sockets() -> None:
        kept.extend(os.dup(fd) for fd in (lock, *fds))

    http, workers, control, *outside = (socket.socket(fileno=fd) for fd in fds)
    context = None
    if found.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(found.certificate, found.key)
    sockets = Sockets(http, workers, control, outside[0] if outside else None)
    names = frozenset(name.lower() for name in found.name)
    token = os.environ.pop("RUNYARD_METRICS_TOKEN", "")
    process = GatewayProcess(
        folder,
        sockets,
        names=names,
        metrics_token=token,
        tls=context,
        workers_tls=context if outside else None,
        only=found.only,
        is_home_there=lambda: has_lock(folder, lock),
        on_orphaned=keep_sockets,
    )
    process.run()
    if process.exit_code == ORPHANED:
        # The keeper was killed. With its sockets this process becomes the next one, and starts a serving process.
        for fd in kept:
            os.set_inheritable(fd, True)
        words = ["-m", "runyard.serving.gateway", "--folder", str(folder), "--host", found.host]
        words += ["--sockets", found.sockets or str(folder), "--take-fds", ",".join(map(str, kept)), *passed_on]
        os.execve(sys.executable, [sys.executable, *words], variables)
    return process.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
