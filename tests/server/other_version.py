"""Run as a script: a private server of another version, as far as a client can tell.

Arguments: home, socket path, version. It holds the home's lock, and for a moment longer after it stopped answering.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time


def main(home: str, path: str, version: str) -> None:
    holder = {"host": socket.gethostname(), "boot_id": "", "pid": os.getpid(), "start_ticks": 0, "socket": path}
    lock = os.open(os.path.join(home, "server/lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.ftruncate(lock, 0)
    os.write(lock, json.dumps(holder).encode())
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(16)
    print("ready", flush=True)
    while True:
        sock, _ = listener.accept()
        if serve(sock, version):
            break
    listener.close()
    time.sleep(0.3)
    os.ftruncate(lock, 0)


def serve(sock: socket.socket, version: str) -> bool:
    """Answer one connection; whether it asked to stop."""
    data = sock.recv(65536)
    is_stop = data.startswith(b"POST /api/v1/server/stop ")
    info = {"id": "old", "version": version, "api": 1, "pid": os.getpid(), "host": "h", "url": "http://127.0.0.1:1"}
    body = json.dumps({} if is_stop else info).encode()
    sock.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    sock.close()
    return is_stop


if __name__ == "__main__":
    main(*sys.argv[1:])
