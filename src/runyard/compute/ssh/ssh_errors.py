"""What ssh's words mean for a user, and what to do about them."""

from __future__ import annotations

from typing import Any, Protocol

from runyard.core.errors import NotTrusted, RunyardError, SystemFailure, UserError

_CLIENT_FAILED = 255  # ssh itself, not the program there
_NOT_FOUND = (126, 127)


class Reached(Protocol):
    @property
    def username(self) -> str: ...
    @property
    def python(self) -> str: ...
    def forget_command(self, host: Any) -> str: ...


def explain(host: Any, words: str, *, code: int, client: Reached) -> RunyardError:
    """Return the error that a call to `host` ended with; `words` is what ssh or the program there said."""
    said = _last_words(words)
    if code == _CLIENT_FAILED:
        return _of_connection(host, words, said, client)
    if code in _NOT_FOUND:
        return UserError(
            f"The machine {host} has no `{client.python}`.",
            why=f"Its shell says: {said}.",
            hint="Install Python 3.8 or newer there, or name the one it has: python='/usr/bin/python3.11'.",
        )
    return UserError(
        f"The machine {host} could not do what it was asked.",
        why=f"The program there ended with {code}: {said}.",
        hint="It needs Python 3.8 or newer and a private folder for runs (node_home). See docs/guides/ssh.md.",
    )


def _of_connection(host: Any, words: str, said: str, client: Reached) -> RunyardError:
    if "IDENTIFICATION HAS CHANGED" in words or "REVOKED HOST KEY" in words:
        return NotTrusted(
            f"The machine {host} shows another host key than the one that was recorded.",
            why="It was installed again, or another machine answers in its place. Nothing was sent to it.",
            hint=f"If the new key is right: `{client.forget_command(host)}`, then attach the target again.",
        )
    if "Host key verification failed" in words or "host key is known for" in words:
        return NotTrusted(
            f"The host key of {host} is not known.",
            why="Keys are recorded when a target is attached, or given with it (known_hosts=).",
            hint="Attach the target again to record it; `runyard compute show NAME` prints the fingerprints.",
        )
    if "Permission denied" in words or "Too many authentication failures" in words:
        user = f"`{client.username}`" if client.username else "the server's user"
        return UserError(
            f"The machine {host} does not let {user} in.",
            why=f"It says: {said}. Passwords are not used.",
            hint=f"Put the key's public half into ~/.ssh/authorized_keys there (`ssh-copy-id -i KEY {host}`), "
            "or load the key into the agent that the server was started with.",
        )
    if "UNPROTECTED PRIVATE KEY" in words or "error in libcrypto" in words or "invalid format" in words:
        return UserError(
            f"The private key for {host} cannot be used.",
            why=f"ssh says: {said}.",
            hint="Give an unencrypted private key, or load it into the agent (`ssh-add`) and give none.",
        )
    return SystemFailure(
        f"The machine {host} does not answer.",
        why=f"ssh says: {said}.",
        hint="Is it up, does sshd run there on that port, and do its login scripts end? Runs on it go on and are found "
        "again when it answers.",
    )


def _last_words(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else "nothing"
