from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runyard.snapshots.git import git_facts, without_credentials
from tests.snapshots.folders import write

CLEAN = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *arguments: str) -> str:
    command = [
        "git",
        "-c",
        "user.name=Ada",
        "-c",
        "user.email=ada@example.com",
        "-c",
        "init.defaultBranch=main",
        *arguments,
    ]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=CLEAN).stdout.strip()


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q")
    write(project, {"train.py": "one\n", "sub/model.py": "two\n", "data.bin": bytes(range(256))})
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    return project


def properties(folder: Path, **variables: str) -> dict[str, str]:
    return git_facts(folder, environ={**CLEAN, **variables}).properties


def test_a_clean_repository_gives_the_properties_of_azure(repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://ada:token@example.com/team/project.git")
    commit = git(repository, "rev-parse", "HEAD")
    facts = git_facts(repository, environ=CLEAN)

    assert facts.properties == {
        "azureml.git.repository_uri": "https://example.com/team/project.git",
        "azureml.git.branch": "main",
        "azureml.git.commit": commit,
        "azureml.git.dirty": "False",
        "mlflow.source.git.repoURL": "https://example.com/team/project.git",
        "mlflow.source.git.branch": "main",
        "mlflow.source.git.commit": commit,
    }
    assert facts.patch is None and facts.notes == []


def test_an_address_that_changes_is_seen(repository: Path) -> None:
    assert "azureml.git.repository_uri" not in properties(repository)
    git(repository, "remote", "add", "origin", "https://example.com/one.git")
    assert properties(repository)["azureml.git.repository_uri"] == "https://example.com/one.git"
    assert properties(repository)["azureml.git.repository_uri"] == "https://example.com/one.git"
    git(repository, "remote", "set-url", "origin", "https://example.com/two.git")
    assert properties(repository)["azureml.git.repository_uri"] == "https://example.com/two.git"


def test_a_worktree_tells_its_own_branch(repository: Path, tmp_path: Path) -> None:
    git(repository, "remote", "add", "origin", "git@example.com:team/project.git")
    git(repository, "worktree", "add", "-q", "-b", "feature", str(tmp_path / "tree"))
    found = properties(tmp_path / "tree")

    assert found["azureml.git.branch"] == "feature"
    assert found["azureml.git.repository_uri"] == "git@example.com:team/project.git"


def test_a_dirty_tree_has_a_patch_that_makes_it_again(repository: Path, tmp_path: Path) -> None:
    write(repository, {"train.py": "changed\n", "data.bin": b"\0\1\2", "staged name ü.py": "new\n"})
    (repository / "sub" / "model.py").unlink()
    git(repository, "add", "staged name ü.py")
    facts = git_facts(repository, environ=CLEAN)
    git(tmp_path, "clone", "-q", str(repository), "clone")
    (tmp_path / "patch").write_bytes(facts.patch or b"")
    git(tmp_path / "clone", "apply", str(tmp_path / "patch"))

    assert facts.properties["azureml.git.dirty"] == "True"
    for name in ("train.py", "data.bin", "staged name ü.py"):
        assert (tmp_path / "clone" / name).read_bytes() == (repository / name).read_bytes()
    assert not (tmp_path / "clone" / "sub" / "model.py").exists()


def test_an_untracked_file_makes_the_tree_dirty_but_is_in_no_patch(repository: Path) -> None:
    write(repository, {"notes.txt": "untracked"})
    facts = git_facts(repository, environ=CLEAN)

    assert facts.properties["azureml.git.dirty"] == "True" and facts.patch is None and facts.notes == []


def test_a_subfolder_tells_about_itself_only(repository: Path) -> None:
    write(repository, {"train.py": "outside of the source folder\n"})
    assert properties(repository / "sub")["azureml.git.dirty"] == "False"
    write(repository, {"sub/model.py": "inside\n"})
    facts = git_facts(repository / "sub", environ=CLEAN)

    assert facts.properties["azureml.git.dirty"] == "True"
    assert facts.patch is not None and b"inside" in facts.patch and b"outside" not in facts.patch


@pytest.mark.parametrize("many", [False, True], ids=["few files", "many files"])
def test_secrets_are_in_no_patch(repository: Path, many: bool) -> None:
    write(repository, {".env": "old\n", "conf/.aws/config": "old\n", "server.PEM": "old\n"})
    if many:
        write(repository, {f"many/f{index}": "old\n" for index in range(600)})
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-q", "-m", "by mistake")
    write(
        repository, {".env": "canary\n", "conf/.aws/config": "canary\n", "server.PEM": "canary\n", "train.py": "fine\n"}
    )
    if many:
        write(repository, {f"many/f{index}": "new\n" for index in range(600)})
    patch = git_facts(repository, environ=CLEAN).patch

    assert b"canary" in git(repository, "diff", "HEAD").encode(), "the control: git itself shows them"
    assert patch is not None and b"canary" not in patch and b"+fine" in patch


def test_a_detached_head_and_a_repository_without_commits(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")

    assert properties(repository)["azureml.git.branch"] == "HEAD"
    assert properties(empty) == {
        "azureml.git.branch": "main",
        "azureml.git.dirty": "False",
        "mlflow.source.git.branch": "main",
    }


def test_no_repository_no_git_no_folder_give_nothing(tmp_path: Path, repository: Path) -> None:
    write(tmp_path, {"plain/x": ""})

    assert git_facts(tmp_path / "plain", environ=CLEAN).properties == {}
    assert git_facts(tmp_path / "nowhere", environ=CLEAN).properties == {}
    assert properties(repository, PATH=str(tmp_path)) == {}


def test_variables_override_what_git_says(repository: Path, tmp_path: Path) -> None:
    variables = {
        "AZUREML_GIT_REPOSITORY_URI": "https://u:p@ci.example.com/x",
        "AZUREML_GIT_BRANCH": "release",
        "AZUREML_GIT_COMMIT": "abc",
        "AZUREML_GIT_DIRTY": "True",
        "AZUREML_GIT_BUILD_ID": "17",
        "AZUREML_GIT_BUILD_URI": "https://ci.example.com/17",
    }
    expected = {
        "azureml.git.repository_uri": "https://ci.example.com/x",
        "azureml.git.branch": "release",
        "azureml.git.commit": "abc",
        "azureml.git.dirty": "True",
        "azureml.git.build_id": "17",
        "azureml.git.build_uri": "https://ci.example.com/17",
        "mlflow.source.git.repoURL": "https://ci.example.com/x",
        "mlflow.source.git.branch": "release",
        "mlflow.source.git.commit": "abc",
    }

    assert properties(repository, **variables) == expected
    assert properties(tmp_path, **variables) == expected


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://host/a.git", "https://host/a.git"),
        ("https://user@host/a.git", "https://host/a.git"),
        ("https://user:pa@ss@host/a.git", "https://host/a.git"),
        ("https://x-access-token:ghp_1@host:8443/a", "https://host:8443/a"),
        ("https://host/a?private_token=1#x", "https://host/a"),
        ("ssh://git@host:22/a", "ssh://git@host:22/a"),
        ("ssh://git:pw@host/a", "ssh://git@host/a"),
        ("git@host:team/a.git", "git@host:team/a.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
        ("file:///srv/a@b", "file:///srv/a@b"),
    ],
)
def test_credentials_are_no_part_of_an_address(uri: str, shown: str) -> None:
    assert without_credentials(uri) == shown


def test_a_hostile_repository_runs_nothing(repository: Path, tmp_path: Path) -> None:
    """Hooks, fsmonitor, external diff, text conversion and pager of a repository's own configuration."""
    marker = tmp_path / "marker"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat \"$@\" 2>/dev/null\n")
    evil.chmod(0o755)
    write(repository, {".gitattributes": "*.py diff=evil\n", "train.py": "changed\n"})
    for name in (
        "core.fsmonitor",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "core.pager",
        "pager.diff",
    ):
        git(repository, "config", name, str(evil))
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (repository / ".git" / "hooks" / hook).write_text(evil.read_text())
        (repository / ".git" / "hooks" / hook).chmod(0o755)
    subprocess.run(["git", "diff"], cwd=repository, check=False, capture_output=True, env=CLEAN)
    assert marker.exists(), "the control: plain git runs them"
    marker.unlink()
    facts = git_facts(repository, environ=CLEAN)

    assert facts.properties["azureml.git.dirty"] == "True" and facts.patch is not None
    assert not marker.exists()


def test_git_variables_of_the_submitter_have_no_say(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "elsewhere")
    hostile = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_EXTERNAL_DIFF": f"touch {marker};",
        "GIT_SSH_COMMAND": f"touch {marker};",
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {marker};",
    }
    write(repository, {"train.py": "changed\n"})

    assert properties(repository, **hostile)["azureml.git.branch"] == "main"
    assert not marker.exists() and not (tmp_path / "trace").exists()


def a_slow_git(tmp_path: Path, script: str) -> dict[str, str]:
    write(tmp_path, {"bin/git": f"#!/bin/sh\n{script}\n"})
    (tmp_path / "bin" / "git").chmod(0o755)
    return {**CLEAN, "PATH": f"{tmp_path / 'bin'}:{CLEAN['PATH']}"}


def test_a_git_that_hangs_is_given_up(repository: Path, tmp_path: Path) -> None:
    facts = git_facts(repository, environ=a_slow_git(tmp_path, "exec sleep 100"), time_limit_s=0.2)

    assert facts.properties == {} and facts.notes == ["The git facts were left out: `git status` took too long."]


def test_a_git_that_fails_is_quoted(repository: Path, tmp_path: Path) -> None:
    facts = git_facts(repository, environ=a_slow_git(tmp_path, "echo 'fatal: dubious ownership' >&2; exit 128"))

    assert facts.properties == {}
    assert facts.notes == ["The git facts were left out: `git status` exited with 128: fatal: dubious ownership"]


def test_a_patch_that_is_too_long_is_left_out_with_a_note(repository: Path) -> None:
    write(repository, {"train.py": os.urandom(9 << 20)})
    facts = git_facts(repository, environ=CLEAN)

    assert facts.patch is None and facts.properties["azureml.git.dirty"] == "True"
    assert facts.notes == ["The patch of the uncommitted changes was left out: `git diff` gave more than 8 MiB."]


@pytest.mark.parametrize("name", ["$(touch x)", "-rf", "new\nline", "--help"], ids=repr)
def test_the_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    git(folder, "init", "-q")
    write(folder, {name: "x"})
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")
    write(folder, {name: "y"})
    facts = git_facts(folder, environ=CLEAN)

    assert facts.properties["azureml.git.branch"] == "main" and facts.patch is not None and b"+y" in facts.patch
    assert sorted(os.listdir(folder)) == sorted([".git", name])
