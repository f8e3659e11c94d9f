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


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A program that leaves a canary, and passes its input on."""
    path = tmp_path / "evil"
    path.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'canary'}'\ncat\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def set_filter(repository: Path, evil: Path, how: str) -> None:
    """Have the repository say that its Python files go through a program of its own."""
    attributes = ".git/info/attributes" if how == "info" else ".gitattributes"
    write(repository, {attributes: "*.py filter=evil\n"})
    what = "process" if how == "process" else "clean"
    section = f'[FiLtEr "evil"]\n\t{what} = {evil}\n'
    config = repository / ".git" / "config"
    if how == "included":
        write(repository, {"notes/extra": section})
        section = "[include]\n\tpath = ../notes/extra\n"
    elif how == "worktree":
        git(repository, "config", "extensions.worktreeConfig", "true")
        config = repository / ".git" / "config.worktree"
    elif how == "required":
        section += "\trequired = true\n"
    config.write_text((config.read_text() if config.exists() else "") + section)


@pytest.mark.parametrize("how", ["clean", "process", "info", "included", "worktree", "required"])
def test_no_filter_of_a_hostile_repository_runs(repository: Path, evil: Path, canary: Path, how: str) -> None:
    set_filter(repository, evil, how)
    write(repository, {"train.py": "eno\n"})  # of the same size: only its content tells
    subprocess.run(["git", "status"], cwd=repository, check=False, capture_output=True, env=CLEAN, timeout=20)
    assert canary.exists(), "the control: plain git runs it"
    canary.unlink()
    facts = git_facts(repository, environ=CLEAN)

    assert not canary.exists()
    assert facts.properties["azureml.git.dirty"] == "True" and b"+eno" in (facts.patch or b"")


def test_a_filter_that_cannot_be_switched_off_leaves_the_facts_out(repository: Path, evil: Path, canary: Path) -> None:
    write(repository, {".gitattributes": "*.py filter=e=vil\n", "train.py": "eno\n"})
    with (repository / ".git" / "config").open("a") as config:
        config.write(f'[filter "e=vil"]\n\tclean = {evil}\n')
    facts = git_facts(repository, environ=CLEAN)

    assert not canary.exists()
    assert facts.properties == {} and "filter" in facts.notes[0]


def test_a_filter_of_the_users_own_stays(repository: Path, evil: Path, canary: Path, tmp_path: Path) -> None:
    """As git-lfs: without it every large file would count as changed."""
    home = tmp_path / "home"
    write(home, {".gitconfig": f'[filter "evil"]\n\tclean = {evil}\n'})
    write(repository, {".gitattributes": "*.py filter=evil\n", "train.py": "eno\n"})
    git_facts(repository, environ={**CLEAN, "HOME": str(home)})

    assert canary.exists()


def test_a_filter_of_the_users_own_that_the_repository_redefines_is_off(
    repository: Path, evil: Path, canary: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    write(home, {".gitconfig": '[filter "evil"]\n\tclean = cat\n'})
    set_filter(repository, evil, "clean")
    write(repository, {"train.py": "eno\n"})
    facts = git_facts(repository, environ={**CLEAN, "HOME": str(home)})

    assert not canary.exists() and facts.properties["azureml.git.dirty"] == "True"


def test_what_a_partial_clone_lacks_is_not_fetched_by_its_own_commands(
    repository: Path, evil: Path, canary: Path
) -> None:
    evil.write_text(f"#!/bin/sh\ntouch '{canary}'\nexit 1\n")
    blob = git(repository, "rev-parse", "HEAD:train.py")
    write(repository, {"train.py": "eno\n"})
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(repository),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": str(evil),
    }.items():
        git(repository, "config", name, value)
    subprocess.run(["git", "diff"], cwd=repository, check=False, capture_output=True, env=CLEAN, timeout=20)
    assert canary.exists(), "the control: plain git runs it"
    canary.unlink()
    facts = git_facts(repository, environ=CLEAN)

    assert not canary.exists()
    assert facts.properties["azureml.git.dirty"] == "True" and "left out" in facts.notes[0]


@pytest.mark.parametrize("below", ["", "tree"])
def test_a_folder_that_is_laid_out_as_a_repository_is_none(
    repository: Path, evil: Path, canary: Path, below: str
) -> None:
    """Such a folder can come with somebody's code, and its configuration would count."""
    inner = repository / "inner"
    git(repository, "clone", "-q", "--bare", ".", "inner")
    core = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = tree\n"
    config = f'{core}[filter "evil"]\n\tclean = {evil}\n'
    write(inner, {"config": config, "tree/.gitattributes": "* filter=evil\n", "tree/train.py": "eno\n"})
    git(inner, "read-tree", "HEAD")
    subprocess.run(["git", "status"], cwd=inner / below, check=False, env=CLEAN, timeout=20)
    assert canary.exists(), "the control: plain git runs it"
    canary.unlink()
    facts = git_facts(inner / below, environ=CLEAN)

    assert not canary.exists() and facts.properties == {}


def test_a_submodules_configuration_has_no_say(repository: Path, evil: Path, canary: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, {"lib.py": "one\n"})
    git(other, "init", "-q")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "first")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "lib")
    git(repository, "commit", "-q", "-m", "second")
    write(repository, {"lib/lib.py": "eno\n", "lib/.gitattributes": "*.py filter=evil\n", "train.py": "eno\n"})
    git(repository / "lib", "config", "filter.evil.clean", str(evil))
    for name, value in {
        "diff.submodule": "diff",
        "status.submoduleSummary": "true",
        "diff.ignoreSubmodules": "none",
    }.items():
        git(repository, "config", name, value)
    subprocess.run(["git", "status"], cwd=repository, check=False, capture_output=True, env=CLEAN, timeout=20)
    assert canary.exists(), "the control: plain git runs it"
    canary.unlink()
    facts = git_facts(repository, environ=CLEAN)

    assert not canary.exists()
    assert facts.properties["azureml.git.dirty"] == "True"


def test_no_program_that_a_configuration_names_runs(repository: Path, evil: Path, canary: Path) -> None:
    programs = [
        *(
            "core.sshCommand",
            "core.editor",
            "core.askPass",
            "core.gitProxy",
            "core.alternateRefsCommand",
            "gpg.program",
        ),
        *("gpg.ssh.program", "sequence.editor", "credential.helper", "alias.status", "alias.diff", "diff.tool"),
        *(
            "interactive.diffFilter",
            "uploadpack.packObjectsHook",
            "merge.evil.driver",
            "difftool.evil.cmd",
            "core.pager",
        ),
        *("remote.origin.receivepack", "remote.origin.uploadpack", "pager.status", "trailer.evil.command"),
    ]
    write(repository, {"train.py": "eno\n"})
    for name in programs:
        git(repository, "config", name, str(evil))
    git(repository, "config", "core.hooksPath", str(evil.parent))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "remote.origin.url", f"ext::{evil}")
    facts = git_facts(repository, environ=CLEAN)

    assert not canary.exists()
    assert facts.properties["azureml.git.dirty"] == "True" and b"+eno" in (facts.patch or b"")


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
