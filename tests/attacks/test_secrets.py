"""A69 to A71: what must stay secret stands nowhere it can be read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from azureml.core import Experiment, ScriptRunConfig, Workspace
from runyard.client.client import Client
from runyard.client.private_server import connect
from runyard.client.transport import Transport
from runyard.core.config.paths import token_file
from runyard.core.config.settings import read_settings
from tests.attacks.conftest import Victim
from tests.attacks.weak import weak_server

HIDDEN_IN = ["VARIABLE", "API_KEY", "PASSWORD", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"]


@pytest.mark.long
def test_a69_secrets_of_the_submitter_are_stored_nowhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """41 canaries in variables, arguments, the git remote and key files are found nowhere."""
    canaries = {f"CANARY_{n}_{HIDDEN_IN[n % 5]}": f"canary{secrets.token_hex(12)}" for n in range(36)}
    for name, value in canaries.items():
        monkeypatch.setenv(name, value)
    in_git, in_env_file, in_key, in_argument, in_variable, printed = (
        f"canary{secrets.token_hex(12)}" for _ in range(6)
    )
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text(f"KEY={in_env_file}")
    (project / "id_rsa").write_text(in_key)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    (project / "train.py").write_text(
        "import hashlib, os, sys\n"
        f"print(len([n for n in os.environ if n.startswith('CANARY_')]), '{printed}')\n"
        "print(hashlib.sha256((sys.argv[2] + os.environ['DATABASE_PASSWORD']).encode()).hexdigest())\n"
    )
    for command in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    subprocess.run(
        [*git, "remote", "add", "origin", f"https://me:{in_git}@host.invalid/r.git"], cwd=project, check=True
    )
    source = ScriptRunConfig(source_directory=str(project), script="train.py", arguments=["--password", in_argument])
    source.run_config.environment_variables = {"DATABASE_PASSWORD": in_variable}
    run = Experiment(Workspace.from_config(), "secrets").submit(source)
    run.wait_for_completion()
    connect(read_settings()).server.stop()
    hidden = [*canaries.values(), in_git, in_env_file, in_key, in_argument, in_variable]

    assert "36" in run_log(run)
    assert hashlib.sha256((in_argument + in_variable).encode()).hexdigest() in run_log(run)  # the script did get them
    assert find_in(home, hidden) == {}
    assert printed in json.dumps(run.get_details_with_logs())
    assert not [value for value in hidden if value in json.dumps(run.get_details_with_logs())]
    monkeypatch.setenv("CANARY_CONTROL", "control")
    (home / "control").write_text(hidden[0])
    assert find_in(home, hidden) == {"control": 1}


@pytest.mark.long
def test_a69_a_reader_sees_no_secret_of_others_runs_in_whatever_shape_it_was_given(home: Path, tmp_path: Path) -> None:
    """A reader looks at all that shows the run. The script gets every value as it was."""
    at_url, in_option, in_header, token, dsn, in_file, in_key = (f"canary{secrets.token_hex(12)}" for _ in range(7))
    arguments = [
        *("--db-url", f"postgres://ada:{at_url}@db.invalid/x", f"--authorization={in_option}"),
        *("-H", f"Authorization: Bearer {in_header}", "--max-tokens", "512"),
    ]
    variables = {"PGPASSWORD": dsn, "MY_NOTE": f"ryu_{secrets.token_hex(32)}", "REPORT_DSN": token, "PASSAGE": "fox"}
    project = tmp_path / "project"
    project.mkdir()
    (project / "token.txt").write_text(in_file)
    (project / "deploy").write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{in_key}\n" + "A" * 64)
    (project / "train.py").write_text(
        "import hashlib, os, sys\n"
        f"given = sys.argv[1:] + [os.environ[name] for name in {sorted(variables)!r}]\n"
        "print(hashlib.sha256('|'.join(given).encode()).hexdigest())\n"
    )
    owner = connect(read_settings())
    source = ScriptRunConfig(source_directory=str(project), script="train.py", arguments=arguments)
    source.run_config.environment_variables = variables
    run = Experiment(Workspace.from_config(), "shapes").submit(source)
    run.wait_for_completion()
    reader = Client(Transport(replace(owner.address, token=owner.users.add("rita", role="reader").token)))
    seen = [
        reader.transport.request("GET", path).read().decode()
        for path in (
            f"/runs/{run.id}",
            f"/runs/{run.id}/plan",
            "/workspaces/default/runs?limit=5",
            "/workspaces/default/table?limit=5",
        )
    ]
    hidden = [at_url, in_option, in_header, token, dsn, in_file, in_key, variables["MY_NOTE"]]
    given = [*arguments, *(variables[name] for name in sorted(variables))]

    assert [value for value in hidden if value in str(seen)] == []
    assert "postgres://ada:********@db.invalid/x" in seen[0] and '"512"' in seen[0] and '"fox"' in seen[0]
    assert hashlib.sha256("|".join(given).encode()).hexdigest() in run_log(run)
    [warning] = [one["message"] for one in reader.runs.get(run.id).warnings if one["source"] == "snapshot"]
    assert "`token.txt`" in warning and "`deploy`" in warning and ".amlignore" in warning


def run_log(run) -> str:
    return run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]


def iter_below(folder: Path) -> Iterator[Path]:
    """Yield files and folders; unlike `rglob`, pass over folders that are removed meanwhile."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in [*folders, *files])


def find_in(folder: Path, values: list[str]) -> dict[str, int]:
    """Return file → how many of the values it holds, raw or inside zstd frames."""
    import zstandard

    found = {}
    for path in iter_below(folder):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        for frame in re.finditer(rb"\x28\xb5\x2f\xfd", data):
            try:
                data += zstandard.ZstdDecompressor().decompressobj().decompress(data[frame.start() :])
            except zstandard.ZstdError:
                continue
        hits = sum(value.encode() in data for value in values)
        if hits:
            found[str(path.relative_to(folder))] = hits
    return found


BAD_REQUESTS = [
    ("GET", "/api/v1/runs/none", b""),
    ("GET", "/api/v1/nothing", b""),
    ("DELETE", "/api/v1/server", b""),
    ("POST", "/api/v1/runs", b"{not json"),
    ("POST", "/api/v1/runs", b'{"run": 3}'),
    ("POST", "/api/v1/runs", b'{"run": {"key": "BODYCANARY"}}'),
    ("POST", "/api/v1/chunks", b"BODYCANARY"),
    ("POST", "/api/v1/trees", b"\x02\0\0\0\x0a\0\0\0{}BODYCANARY"),
    ("POST", "/api/v1/runs/{run}/ship", b"BODYCANARY" * 10),
    ("POST", "/api/v1/runs/{run}/state", b'{"attempt": "BODYCANARY"}'),
    ("GET", "/api/v1/workspaces/default/runs?limit=BODYCANARY", b""),
    ("GET", "/api/v1/workspaces/default/runs?cursor=BODYCANARY", b""),
    ("GET", "/api/v1/workspaces/default/runs?metric=BODYCANARY", b""),
    ("GET", "/api/v1/runs/{run}/metrics/chart?name=x&width=99999999999", b""),
    ("PUT", "/api/v1/workspaces/!!", b"{}"),
    ("POST", "/api/v1/chunks/missing", b'{"ids": ["BODYCANARY"]}'),
    ("POST", "/api/v1/runs/{run}/files", b'{"file": {"name": "a", "size": 1, "chunks": ["BODYCANARY"]}}'),
]


def test_a70_an_error_answer_gives_nothing_away(victim: Victim, tmp_path: Path) -> None:
    forbidden = [victim.token.encode(), victim.first.token.encode(), str(victim.home).encode(), b"Traceback", b'File "']
    statuses = set()
    for method, path, body in BAD_REQUESTS:
        headers = [*victim.bearer(), ("Content-Type", "application/json"), ("Cookie", "c=COOKIECANARY")]
        answer = victim.unix.send(method, path.replace("{run}", victim.first.id), headers=headers, body=body)
        statuses.add(answer.status)
        assert 400 <= answer.status < 500, (method, path, answer)
        assert set(json.loads(answer.body)["error"]) >= {"code", "what", "why", "hint"}, answer
        assert not [text for text in [*forbidden, b"COOKIECANARY"] if text in answer.body], (method, path, answer)
    log = b"".join(path.read_bytes() for path in (victim.home / "server").glob("*.log*"))

    assert len(statuses) >= 3
    assert not [text for text in (victim.token.encode(), b"COOKIECANARY", b"BODYCANARY") if text in log]
    with weak_server(tmp_path) as weak:
        leaked = weak.send("GET", "/files/none", headers=[("Cookie", "c=COOKIECANARY")]).body
        assert b"COOKIECANARY" in leaked
        assert b"Traceback" in leaked


def test_a71_a_stolen_database_opens_nothing(victim: Victim) -> None:
    """Tokens stand in the token file and nowhere else; the files are for their owner only; nothing shows in `ps`."""
    tokens = [victim.token, victim.first.token, victim.second.token]
    holding = find_in(victim.home, tokens)
    modes = {path: mode for path in iter_below(victim.home) if (mode := mode_of(path)) is not None}
    open_to_others = {str(path.relative_to(victim.home)): oct(mode) for path, mode in modes.items() if mode & 0o077}
    lines = [
        Path(f"/proc/{pid}/cmdline").read_bytes() + environ(pid)
        for pid in os.listdir("/proc")
        if pid.isdigit() and readable(pid)
    ]

    assert set(holding) <= {str(token_file(victim.home).relative_to(victim.home))} | {
        name for name in holding if name.endswith("/job.json")
    }
    assert open_to_others == {}
    assert stat.S_IMODE(victim.home.stat().st_mode) & 0o077 == 0
    assert not [line for line in lines for token in tokens if token.encode() in line]


def mode_of(path: Path) -> int | None:
    """None for links, and for what was renamed into place while we looked."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISLNK(found) else stat.S_IMODE(found)


def readable(pid: str) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def environ(pid: str) -> bytes:
    """A server's or supervisor's variables; ranks do hold their own run's token, as Azure's scripts expect."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
        return b"" if b"RUNYARD_RANK=" in data else data
    except OSError:
        return b""
