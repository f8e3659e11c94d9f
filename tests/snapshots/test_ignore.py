from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.core.errors import SnapshotRejected
from runyard.snapshots import rules
from runyard.snapshots.left_out import LeftOutRule, from_text, to_text
from runyard.snapshots.secret_files import git_excludes, looks_secret
from runyard.snapshots.take import Snapshot
from runyard.testing.artifact_store import LocalContent
from tests.snapshots.folders import all_bytes, forget_process, stored, write

Take = Callable[..., Snapshot]


def names(content: LocalContent, snapshot: Snapshot) -> set[str]:
    return {name for name in stored(content, snapshot.root) if not name.endswith("/")}


def test_amlignore_wins_over_gitignore(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {".amlignore": "*.log\n", ".gitignore": "*.py\n", "train.py": "", "a.log": "", "sub/b.log": ""})

    assert names(content, take()) == {".amlignore", ".gitignore", "train.py"}


def test_gitignore_is_used_when_there_is_no_amlignore(project: Path, content: LocalContent, take: Take) -> None:
    write(
        project,
        {
            ".gitignore": "# data\n\n/data/\n*.log\n!keep.log\n",
            "data/x": "",
            "sub/data/y": "",
            "a.log": "",
            "keep.log": "",
        },
    )

    assert names(content, take()) == {".gitignore", "sub/data/y", "keep.log"}


def test_ignore_files_of_subfolders_are_read(project: Path, content: LocalContent, take: Take) -> None:
    write(
        project,
        {
            ".gitignore": "*.log\n",
            "sub/.gitignore": "!keep.log\n/top\nx/y\n",
            "sub/keep.log": "",
            "keep.log": "",
            "sub/top": "",
            "sub/deep/top": "",
            "sub/x/y": "",
            "x/y": "",
            ".pytest_cache/.gitignore": "# made by itself\n*\n",
            ".pytest_cache/v/cache": "",
        },
    )

    assert names(content, take()) == {".gitignore", "sub/.gitignore", "sub/keep.log", "sub/deep/top", "x/y"}


def test_a_subfolders_rules_that_change_are_applied_there_alone(
    project: Path, content: LocalContent, take: Take
) -> None:
    write(project, {"a/x.log": "1", "b/x.log": "2", "b/c/x.log": "3"})
    assert take().changed_files == 3
    write(project, {"b/.gitignore": "*.log\n"})
    snapshot = take()
    assert names(content, snapshot) == {"a/x.log", "b/.gitignore"} and snapshot.changed_files == 1
    (project / "b" / ".gitignore").unlink()
    assert names(content, take()) == {"a/x.log", "b/x.log", "b/c/x.log"}
    forget_process()
    write(project, {"b/c/.amlignore": "x.log\n"})

    assert names(content, take()) == {"a/x.log", "b/x.log", "b/c/.amlignore"}


def test_what_amlignore_says_wins_over_gitignore_files_of_subfolders(
    project: Path, content: LocalContent, take: Take
) -> None:
    write(project, {".amlignore": "*.tmp\n!data/\n", "data/.gitignore": "*\n", "data/x.csv": "", "data/y.tmp": ""})
    write(project, {"other/.gitignore": "*.csv\n", "other/z.csv": ""})

    assert names(content, take()) == {".amlignore", "data/.gitignore", "data/x.csv", "other/.gitignore"}


def test_an_amlignore_that_only_keeps_adds_to_the_gitignore(project: Path, content: LocalContent, take: Take) -> None:
    write(
        project, {".gitignore": "data\n*.log\nwandb/\n", "data/x.csv": "", "data/a.log": "", "wandb/w": "", "b.log": ""}
    )
    assert names(content, take()) == {".gitignore"}
    write(project, {".amlignore": "# the run reads it\n!data/\n"})

    assert names(content, take()) == {".amlignore", ".gitignore", "data/x.csv", "data/a.log"}


def test_a_python_environment_is_never_part_of_a_snapshot(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"train.py": "", "tools/env/conda-meta/history": "", "tools/env/bin/tool": "x" * 3000})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    (project / ".venv" / ".gitignore").unlink(missing_ok=True)  # of newer Pythons
    snapshot = take()

    assert names(content, snapshot) == {"train.py"}
    assert re.fullmatch(
        r"Left out `\.venv` \(\d+\.\d kB\), `tools/env` \(3\.0 kB\): a Python environment is never part of a "
        r"snapshot\. A run gets its own\.",
        "\n".join(snapshot.notes),
    )
    assert take().notes == snapshot.notes
    write(project, {".gitignore": ".venv\ntools/\n"})
    assert take().notes == [], "a rule said it already"


def test_an_environment_in_the_source_folder_itself_stays_out(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"train.py": "", "share/own.txt": ""})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project], check=True)
    (project / ".gitignore").unlink(missing_ok=True)

    for text in ("", "", "*.log\n"):
        write(project, {"share/.gitignore": text})
        snapshot = take()
        assert names(content, snapshot) == {"train.py", "share/.gitignore", "share/own.txt"}
        assert snapshot.notes[0].startswith("Left out `bin` (") and "`lib` (" in snapshot.notes[0]


def test_what_each_line_kept_out_is_counted(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {".gitignore": "# big\ndata/\n*.log\nnothing\n", "a/b.log": "12345", "c.log": "1", "a.py": ""})
    write(project, {"data/x.csv": "x" * 500, "data/deep/y.csv": "y" * 200, "a/data/z": "z" * 50})
    write(project, {"m/.gitignore": "*.pt\n", "m/w.pt": "w"})
    first = take().ignored

    assert first == [
        LeftOutRule(".gitignore", 2, "data/", ["a/data/", "data/"], 3, 750, True),
        LeftOutRule(".gitignore", 3, "*.log", ["a/b.log", "c.log"], 2, 6, True),
        LeftOutRule("m/.gitignore", 1, "*.pt", ["m/w.pt"], 1, 1, True),
    ]
    assert take().ignored == first, "the second walk knows the rules from its cache"
    forget_process()
    assert take().ignored == first and from_text(to_text(first)) == first
    assert [rule.covers("data/deep/q.csv") for rule in first] == ["data/", None, None]
    assert [rule.covers("m/other.pt") for rule in first] == [None, None, "m/other.pt"]
    assert [rule.covers("other.pt") for rule in first] == [None, None, None]


def test_a_secret_folder_that_is_taken_in_travels_whole(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {".amlignore": "!.aws/\n", ".aws/credentials": "meant", "credentials": "not"})

    assert names(content, take()) == {".amlignore", ".aws/credentials"}


def test_rules_that_change_are_applied_to_what_was_known(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"a.py": "a", "b.log": "b", "sub/c.log": "c"})
    assert names(content, take()) == {"a.py", "b.log", "sub/c.log"}
    (project / ".amlignore").write_text("*.log\n")
    assert names(content, take()) == {".amlignore", "a.py"}
    (project / ".amlignore").write_text("b.log\n")
    assert names(content, take()) == {".amlignore", "a.py", "sub/c.log"}
    (project / ".amlignore").unlink()

    assert names(content, take()) == {"a.py", "b.log", "sub/c.log"}


def test_a_name_that_becomes_a_folder_is_decided_anew(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {".amlignore": "build/\n", "build": "a file called build"})
    assert names(content, take()) == {".amlignore", "build"}
    (project / "build").unlink()
    write(project, {"build/out.o": "x"})
    assert names(content, take()) == {".amlignore"}
    (project / "build" / "out.o").unlink()
    (project / "build").rmdir()
    write(project, {"build": "a file again"})

    assert stored(content, take().root)["build"] == b"a file again"


def test_the_same_files_are_kept_as_git_keeps(project: Path, content: LocalContent, take: Take) -> None:
    rules = [
        "*.o",
        "!keep.o",
        "/top",
        "deep/**/x",
        "build/",
        "a/*",
        "!a/b",
        "**/cache",
        "doc/*.txt",
        "[0-9]*.tmp",
        "\\#odd",
        "sp ace",
    ]
    files = [
        *("x.o", "keep.o", "sub/keep.o", "top", "sub/top", "deep/x", "deep/1/2/x", "deep/y", "build/x", "sub/build/y"),
        *(
            "a/b",
            "a/c",
            "a/d/e",
            "cache/q",
            "u/cache/w",
            "doc/a.txt",
            "doc/sub/a.txt",
            "1.tmp",
            "x1.tmp",
            "#odd",
            "sp ace",
        ),
    ]
    write(project, {".gitignore": "\n".join(rules) + "\n", **dict.fromkeys(files, "")})
    git = ["git", "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "-q"], cwd=project, check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
    )

    assert names(content, take()) == set(listed.stdout.split("\0")) - {""}


def test_git_and_bytecode_folders_stay_out_at_every_depth(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {".git/config": "x", "sub/.git": "gitdir: elsewhere", "sub/__pycache__/a.pyc": "x", "sub/a.py": ""})

    assert names(content, take()) == {"sub/a.py"}


def test_our_own_home_inside_the_source_stays_out(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"train.py": "", "yard/artifacts/packs/x": "stored"})
    snapshot = take(home=project / "yard")

    assert names(content, snapshot) == {"train.py"}
    assert any("RUNYARD_HOME" in note and "`yard`" in note for note in snapshot.notes)


SECRETS = [
    *(".env", ".env.production", "prod.env", ".netrc", "credentials", "credentials.json", "id_rsa", "id_ed25519"),
    *("server.pem", "tls.KEY", "cert.p12", "service-account-1.json", ".pypirc", ".git-credentials"),
    *("token.txt", "hf_token.txt", "passwords.txt", "kubeconfig", ".npmrc", "kaggle.json", "terraform.tfstate"),
    *("id_rsa.bak", "sa-key.json", "prod-sa-key.json", "api_key.txt", ".vault-token", "secrets.ini", "dev.kubeconfig"),
]
HARMLESS = [
    *(".env.example", "credentials.py", "id_rsa.pub", "environment.yml", "keyboard.txt", "train.py", "cacert.pem"),
    *("tokens.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "keys.py", "credentials.go"),
    *("token_counts.txt", "vocab.txt", "secret_santa.txt", "passages.txt", "key.npy", "kaggle.csv", "monkey.txt"),
]
KEY = "-----BEGIN {0}PRIVATE KEY-----\n" + "QUJD" * 20 + "\n-----END {0}PRIVATE KEY-----\n"


@pytest.mark.parametrize("name", SECRETS)
def test_what_looks_secret_is_left_out_with_a_notice(
    project: Path, content: LocalContent, take: Take, name: str
) -> None:
    write(project, {f"conf/{name}": "canary of a secret", "train.py": "code"})
    said: list[str] = []
    snapshot = take(say=said.append)

    assert names(content, snapshot) == {"train.py"}
    assert b"canary of a secret" not in all_bytes(content)
    assert said == snapshot.notes
    assert f"`conf/{name}`" in said[0] and f"`!{name}`" in said[0] and "`.amlignore`" in said[0]
    assert take().notes == said, "the notice comes again with the next snapshot"


@pytest.mark.parametrize("name", SECRETS)
def test_the_control_without_the_guard_a_secret_travels(
    project: Path, content: LocalContent, take: Take, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A34: the files of the test above are sent when nobody looks at their names."""
    write(project, {f"conf/{name}": "canary of a secret", "train.py": "code"})
    monkeypatch.setattr(rules, "looks_secret", lambda _name, *, is_folder: False)
    snapshot = take()

    assert names(content, snapshot) == {f"conf/{name}", "train.py"} and snapshot.notes == []
    assert b"canary of a secret" in all_bytes(content)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_shares_a_name_with_secrets_travels(
    project: Path, content: LocalContent, take: Take, name: str
) -> None:
    write(project, {name: "fine"})
    snapshot = take()

    assert names(content, snapshot) == {name} and snapshot.notes == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deploy", KEY.format("OPENSSH ")),
        ("conf/tls.txt", "\n" + KEY.format("")),
        ("conf/rsa", KEY.format("RSA ")),
        ("conf/gcp.json", json.dumps({"type": "service_account", "private_key": KEY.format("")})),
        ("gcp2.json", json.dumps({"private_key": KEY.format("")}, indent=2)),
    ],
)
def test_a_private_key_is_known_by_its_content(
    project: Path, content: LocalContent, take: Take, name: str, text: str
) -> None:
    write(project, {name: text, "train.py": "code"})
    snapshot = take()

    assert names(content, snapshot) == {"train.py"}
    assert f"`{name}`" in snapshot.left_out and snapshot.notes == [snapshot.left_out] == take().notes
    write(project, {".amlignore": f"!{Path(name).name}\n"})
    assert names(content, take()) == {".amlignore", name, "train.py"}


def test_what_only_mentions_a_key_travels(project: Path, content: LocalContent, take: Take) -> None:
    files = {
        "test_tls.py": KEY.format(""),
        "notes.txt": "A key begins with -----BEGIN PRIVATE KEY----- and so on, for some more characters.",
        "cert.crt": "-----BEGIN CERTIFICATE-----\n" + "QUJD" * 20 + "\n-----END CERTIFICATE-----\n",
        "model.json": json.dumps({"private_key": "no key", "layers": [1] * 30}),
        "large.bin": KEY.format("") + "x" * (64 << 10),
    }
    write(project, files)
    snapshot = take()

    assert names(content, snapshot) == set(files) and snapshot.left_out == ""


def test_a_name_that_a_new_version_lists_leaves_a_snapshot_that_had_it(
    project: Path, content: LocalContent, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"token.txt": "t", "train.py": "code"})
    with monkeypatch.context() as patch:
        patch.setattr(rules, "looks_secret", lambda _name, *, is_folder: False)
        patch.setattr(rules, "LIST_VERSION", "1")
        assert names(content, take()) == {"token.txt", "train.py"}

    assert names(content, take()) == {"train.py"}


def test_secret_folders_stay_out(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {".aws/config": "x", ".ssh/known_hosts": "x", "deep/.kube/config": "x", "a.py": ""})
    snapshot = take()

    assert names(content, snapshot) == {"a.py"}
    assert all(f"`{name}`" in snapshot.notes[0] for name in (".aws", ".ssh", "deep/.kube"))


def test_a_secret_that_the_ignore_file_takes_back_in_travels(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {".amlignore": "!.env\n", ".env": "meant", "sub/.env": "meant too", "other.pem": "not"})
    snapshot = take()

    assert names(content, snapshot) == {".amlignore", ".env", "sub/.env"}
    assert "other.pem" in snapshot.notes[0] and ".env" not in snapshot.notes[0]


def test_a_secret_that_is_ignored_needs_no_notice(project: Path, take: Take) -> None:
    write(project, {".gitignore": ".env\n", ".env": "x"})

    assert take().notes == []


def test_every_secret_pattern_reaches_git_too() -> None:
    assert ":(exclude,icase,glob)**/.env" in git_excludes() and ":(exclude,icase,glob)**/.ssh/**" in git_excludes()
    assert looks_secret(".ENV", is_folder=False) and not looks_secret(".env", is_folder=True)


def test_an_ignore_file_that_is_a_link_is_not_followed(
    project: Path, tmp_path: Path, content: LocalContent, take: Take
) -> None:
    (tmp_path / "outside").write_text("*.py\n")
    write(project, {"rules": "*.py\n", "a.py": ""})
    (project / ".amlignore").symlink_to("rules")
    snapshot = take()

    assert "a.py" in names(content, snapshot)
    assert snapshot.notes == ["`.amlignore` is a symbolic link and was not read: nothing is ignored by it."]


def test_an_ignore_file_that_cannot_be_understood_is_named(project: Path, take: Take) -> None:
    write(project, {".amlignore": "x" * ((1 << 20) + 1)})

    with pytest.raises(SnapshotRejected, match=r"`.amlignore` is longer"):
        take()
