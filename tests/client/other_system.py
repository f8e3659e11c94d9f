"""Make this process look like one on Windows or macOS: hide what their Pythons lack. For subprocesses of tests.

What the standard library itself needs is loaded first; code that is imported later finds the names gone.
"""

from __future__ import annotations

import asyncio  # noqa: F401
import builtins
import concurrent.futures  # noqa: F401
import importlib.abc
import logging.handlers  # noqa: F401
import multiprocessing  # noqa: F401
import os
import select
import selectors  # noqa: F401
import shutil  # noqa: F401
import signal
import socket
import ssl  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import time
import uuid  # noqa: F401
from typing import Any

MODULES = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "syslog", "curses", "readline"})
OS = """
    chown confstr eventfd fchmod fchown fdatasync fork forkpty fstatvfs getegid geteuid getgid getgroups
    getloadavg getpgid getpgrp getpriority getresuid getsid getuid getxattr initgroups killpg lchown listxattr
    lockf memfd_create mkfifo mknod nice openpty pathconf pidfd_open pipe2 posix_fallocate posix_fadvise
    posix_spawn posix_spawnp pread preadv pwrite pwritev register_at_fork removexattr sched_getaffinity
    sched_setaffinity sched_yield sendfile setegid seteuid setgid setpgid setpriority setsid setuid setxattr
    statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 waitid WNOHANG WNOWAIT WEXITED O_CLOEXEC
    O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC O_TMPFILE POSIX_SPAWN_OPEN copy_file_range splice
    fchdir chroot
"""
SIGNALS = "SIGALRM SIGCHLD SIGHUP SIGKILL SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 pthread_sigmask setitimer sigwait"
CLOCKS = ["CLOCK_BOOTTIME", "clock_gettime", "clock_gettime_ns", "CLOCK_MONOTONIC", "CLOCK_REALTIME"]


class _Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Hidden())
    hidden = [
        (os, OS.split()),
        (signal, SIGNALS.split()),
        (time, CLOCKS),
        (socket, ["AF_UNIX"]),
        (select, ["poll", "epoll"]),
    ]
    for module, names in hidden:
        for name in names:
            module.__dict__.pop(name, None)
    os.supports_dir_fd, os.supports_fd = set(), set()  # type: ignore[misc]
    for name in ("open", "stat", "readlink", "unlink", "mkdir", "rename", "symlink", "access", "lstat"):
        setattr(os, name, _without_folders(getattr(os, name)))
    scandir, listdir = os.scandir, os.listdir
    os.scandir = lambda path=".": scandir(_no_number(path))  # type: ignore[assignment]
    os.listdir = lambda path=".": listdir(_no_number(path))  # type: ignore[assignment]
    plain_open = builtins.open
    builtins.open = lambda file, *args, **kwargs: plain_open(_no_proc(file), *args, **kwargs)  # type: ignore[assignment]


def _without_folders(call: Any) -> Any:
    def checked(path: Any, *args: Any, **kwargs: Any) -> Any:
        if {"dir_fd", "src_dir_fd", "dst_dir_fd"} & {name for name, value in kwargs.items() if value is not None}:
            raise NotImplementedError("dir_fd unavailable on this platform")
        return call(_no_proc(path), *args, **kwargs)

    return checked


def _no_number(path: Any) -> Any:
    if isinstance(path, int):
        raise TypeError("listdir: path should be string, bytes, os.PathLike or None, not int")
    return _no_proc(path)


def _no_proc(path: Any) -> Any:
    if isinstance(path, (str, os.PathLike)) and str(path).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return path


hide()
