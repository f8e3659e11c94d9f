"""Starts a node's part of a run: gets our code from the server, once per version, and becomes the supervisor.

A self-contained script (`python3 -I -S -c`, standard library only), because nothing of ours is on the node yet. The
ticket (core/tickets.py) is in RUNYARD_TICKET. A Python older than 3.8 must get far enough to report that.
"""

import base64
import gc
import json
import os
import stat
import sys
import time
from typing import Any, Dict, Tuple

PATIENCE_S = 900.0  # the server may be away for a while
OLDEST_PYTHON = (3, 8)


def main() -> None:
    """Install our code where it is missing, then run `node.main` in this process. Never returns."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(
            f"runyard: {sys.executable} is Python {sys.version.split()[0]}; this node needs 3.8 or newer (python=)"
        )
    gc.disable()  # imports create many objects and no garbage; `node.node` enables it again
    ticket = json.loads(base64.urlsafe_b64decode(os.environ["RUNYARD_TICKET"]))
    home = private_home(ticket["node_home"] or f"/var/tmp/runyard-{os.getuid()}")
    code = os.path.join(home, "cache", "injection", ticket["bundle"])
    if not is_whole(code):
        install(ticket, code)
    sys.path.insert(0, code)
    sys.modules.setdefault("inspect", Later("inspect"))
    os.environ["RUNYARD_HOME"] = home
    from runyard.supervisor.node.node import main as be_node

    sys.exit(be_node())


class Later(type(sys)):  # type: ignore[misc]  # a module
    """A module that is imported when an attribute of it is first used.

    `dataclasses` imports `inspect`, which takes longer than its other imports together. Before Python 3.13 it makes no
    use of it. Measured without this: +3 to 6 ms on 115 from a node's start to the script's first line.
    """

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            sys.modules.pop(self.__name__, None)
        return getattr(__import__(self.__name__), name)


def private_home(path: str) -> str:
    """Return the absolute path of the node's home, and make it if it is missing; exit if others can write there."""
    path = os.path.abspath(os.path.expanduser(os.path.expandvars(path)))
    os.makedirs(path, 0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        sys.exit(f"runyard: {path} is not a private folder of this user; name another one (node_home)")
    return path


def is_whole(code: str) -> bool:
    """Return whether every file of the code is there with its size: a cleaner of old files may have removed some."""
    try:
        with open(os.path.join(code, "bundle.json"), encoding="utf-8") as file:
            sizes = json.load(file)
        return all(os.stat(os.path.join(code, name)).st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def install(ticket: Dict[str, Any], code: str) -> None:
    """Download the code and rename it into place. A lock lets one process of this node do it at a time."""
    # These imports, and those in the functions below, take a third of a start. Only a node's first run needs them.
    import fcntl
    import hashlib
    import shutil

    parent = os.path.dirname(code)
    os.makedirs(parent, 0o700, exist_ok=True)
    with open(os.path.join(parent, ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_whole(code):  # another process of this node has installed it meanwhile
            return
        beside = f"{code}.{os.urandom(4).hex()}.new"
        archive = download(ticket)
        if hashlib.sha256(archive).hexdigest() != ticket["bundle"]:
            sys.exit("runyard: the server sent other code than the ticket names; submit the run again")
        try:
            unpack(archive, beside)
            shutil.rmtree(code, ignore_errors=True)
            os.rename(beside, code)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def unpack(archive: bytes, folder: str) -> None:
    """Write the archive's files below `folder`; exit when one would lie outside."""
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
        for name in bundle.namelist():
            path = os.path.normpath(os.path.join(folder, name))
            if not path.startswith(folder + os.sep):
                sys.exit(f"runyard: the server's archive names a file outside of it: {name!r}")
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with open(path, "wb") as file:
                file.write(bundle.read(name))


def download(ticket: Dict[str, Any]) -> bytes:
    """Return the code's archive; repeat the request for up to 15 minutes. Exit when the server refuses."""
    import http.client

    give_up_at, pause = time.monotonic() + PATIENCE_S, 0.2
    while True:
        try:
            status, body = ask(ticket)
            if status == 200:
                return body
            if status < 500:
                text = body[:500].decode("utf-8", "replace")
                sys.exit(f"runyard: the server refused this node ({status}): {text}")
            problem = f"it answered {status}"
        except (OSError, http.client.HTTPException) as error:
            problem = str(error)
        if time.monotonic() > give_up_at:
            sys.exit(f"runyard: the server did not answer for {PATIENCE_S:g} s: {problem}")
        time.sleep(pause)
        pause = min(pause * 2, 10.0)


def ask(ticket: Dict[str, Any]) -> Tuple[int, bytes]:
    """Request the archive once; return status and body."""
    import http.client

    server = ticket["server"]
    usual = 443 if server.get("tls") else 80
    port = "" if server.get("port") == usual else f":{server.get('port')}"
    host = "runyard" if server["kind"] == "unix" else f"{server['host']}{port}"
    link = http.client.HTTPConnection("localhost", timeout=60)
    link.sock = connect(server)
    try:
        headers = {"Host": host, "Authorization": f"Bearer {ticket['token']}"}
        link.request("GET", "/api/v1/nodes/bundle", headers=headers)
        answer = link.getresponse()
        return answer.status, answer.read()
    finally:
        link.close()


def connect(server: Dict[str, Any]) -> Any:
    """Return a socket to the server. A pinned certificate is compared before anything is sent."""
    import hashlib
    import hmac
    import socket
    import ssl

    if server["kind"] == "unix":
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(server["path"])
        return sock
    sock = socket.create_connection((server["host"].strip("[]"), int(server["port"])), timeout=60)
    if not server.get("tls"):
        return sock
    context = ssl.create_default_context()
    wanted = server.get("fingerprint")
    if wanted:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    secured = context.wrap_socket(sock, server_hostname=server["host"].strip("[]"))
    found = hashlib.sha256(secured.getpeercert(True) or b"").hexdigest()
    if wanted and not hmac.compare_digest(found, wanted.lower().replace(":", "")):
        secured.close()
        sys.exit(f"runyard: the server shows another certificate than the ticket names: {found}")
    return secured


if __name__ == "__main__":
    main()
