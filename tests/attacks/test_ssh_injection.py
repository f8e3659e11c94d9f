"""A41 over SSH: names of folders, programs and keys become no command there and no option here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.ssh.client import Host, SshClient
from runyard.core.config.settings import Settings
from runyard.core.errors import InvalidArgument
from tests.cluster.sshd import install

SHELL = [
    "$(touch {canary})",
    "`touch {canary}`",
    "x; touch {canary}",
    "x' ; touch {canary} ; '",
    'x" ; touch {canary} ; "',
    "x & touch {canary} #",
    "${{IFS}}x;touch${{IFS}}{canary}",
]
FOLDERS = ["a b", 'a"b', "a'b", "%h%%x", "$(touch canary)", "`x`", "a\\b", "~", "a,b", "-oProxyCommand=x"]


def client(home: Path, **options: Any) -> SshClient:
    return SshClient(Settings(home=home), {"username": "me", **options})


@pytest.mark.parametrize("text", SHELL)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_program_with_shell_words_in_its_name_is_one_word_there(tmp_path: Path, shell: str, text: str) -> None:
    canary = tmp_path / "canary"
    python = text.format(canary=canary)
    there = client(tmp_path, python=python).command(Host("hostA"))[-1]
    subprocess.run([shell, "-c", there], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert not canary.exists()

    for weak in (f"true {python}", f"true '{python}'", f'true "{python}"'):
        subprocess.run([shell, "-c", weak], capture_output=True, check=False)
    assert canary.exists(), "control: without care this does something"


def test_a_program_with_a_space_in_its_name_is_still_found(tmp_path: Path) -> None:
    python = tmp_path / "my $(python)"
    python.symlink_to(sys.executable)
    there = client(tmp_path, python=str(python)).command(Host("hostA"))[-1]
    program = b'print("it runs")'
    ran = subprocess.run(
        ["sh", "-c", there], input=b"%d\n%s" % (len(program), program), capture_output=True, check=True
    )

    assert ran.stdout == b"it runs\n"


@pytest.mark.parametrize(
    "address", ["-oProxyCommand=touch x", "a b", "a\nb", "a;b", "$(x)", "me@hostA", "", "a/b", "-"]
)
def test_a_host_that_is_an_option_or_a_command_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidArgument):
        client(tmp_path, hosts=[{"address": address}])
    assert client(tmp_path, hosts=[{"address": "hostA"}, {"address": "fe80::1"}, {"address": "10.0.0.7"}])


@pytest.mark.parametrize("port", ["22 -oProxyCommand=x", -1, 0, 65536, 22.5, True])
def test_a_port_is_a_number(tmp_path: Path, port: Any) -> None:
    with pytest.raises(InvalidArgument):
        client(tmp_path, hosts=[{"address": "hostA", "port": port}])


@pytest.mark.external  # asks OpenSSH itself what it reads
@pytest.mark.parametrize("name", FOLDERS)
def test_ssh_reads_the_paths_of_an_odd_home_as_they_are(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    key = home / "server" / "compute" / "key"
    words = client(home, private_key=str(key)).command(Host("hostA", 2222))
    read = effective(words)

    assert read["userknownhostsfile"] == str(home / "server" / "ssh" / "known_hosts")
    assert read["identityfile"].replace("%%", "%") == str(key)  # -G shows it before it is expanded
    assert (read["hostname"], read["port"], read["user"]) == ("hosta", "2222", "me")
    assert read["stricthostkeychecking"] == "true" and read["batchmode"] == "yes"
    assert read.get("proxycommand") is None and read.get("proxyjump") is None
    assert read["passwordauthentication"] == read["forwardagent"] == "no"


@pytest.mark.external  # asks OpenSSH itself what it reads
def test_control_a_home_that_is_not_quoted_is_read_as_something_else_and_a_variable_is_refused(tmp_path: Path) -> None:
    found = effective(["ssh", "-F", "none", "-o", f"UserKnownHostsFile={tmp_path}/a b/%%h", "--", "hostA"])
    assert found["userknownhostsfile"] != f"{tmp_path}/a b/%%h"
    found = effective(["ssh", "-F", "none", "-oProxyCommand=touch x", "hostA"])
    assert found["proxycommand"] == "touch x"

    with pytest.raises(InvalidArgument, match="cannot hold"):
        client(tmp_path / "${HOME}").command(Host("hostA"))


def effective(words: list[str]) -> dict[str, str]:
    """Return what ssh would do, by its own account; it connects to nobody."""
    install()
    said = subprocess.run([words[0], "-G", *words[1:]], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
