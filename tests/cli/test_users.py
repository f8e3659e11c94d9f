"""`runyard users`: tokens on stdout and only once, talk on stderr; `runs list` says who when there is more than one."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from runyard.cli.app import run
from runyard.client.client import Client
from runyard.client.private_server import connect
from runyard.client.transport import Transport
from runyard.core.config.settings import read_settings
from runyard.core.errors import NotAuthenticated
from runyard.core.names import make_uuid
from runyard.core.records import NewRun

pytestmark = pytest.mark.usefixtures("shared_home")


def runyard(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def as_user(token: str) -> Client:
    return Client(Transport(replace(connect(read_settings()).address, token=token)))


def test_a_user_is_added_listed_changed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = runyard(capsys, "users", "add", "ada", "--role", "reader")
    token = out.strip()
    assert code == 0 and re.fullmatch(r"ryu_[0-9a-f]{64}", token)
    assert token not in err and "shown only now" in err and "runyard login URL" in err
    assert as_user(token).users.me() == ("ada", "reader", None)

    environ = {"RUNYARD_URL": connect(read_settings()).server.info().url, "RUNYARD_TOKEN": token}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        assert re.search(r"^you are +ada \(reader\)$", runyard(capsys, "server", "status")[1], re.MULTILINE)

    second = runyard(capsys, "users", "add-token", "ada", "laptop")[1].strip()
    assert runyard(capsys, "users", "role", "ada", "admin")[2] == "User `ada` has the role admin now.\n"
    _, table, _ = runyard(capsys, "users", "list")
    assert token not in table and second not in table
    assert re.search(r"^ada +admin +first +\S+ \S+ +\d{4}-", table, re.MULTILINE)
    assert re.search(r"^ada +admin +laptop +\S+ \S+ +never$", table, re.MULTILINE)
    found = json.loads(runyard(capsys, "users", "list", "--json")[1])
    assert [(one["name"], one["role"], len(one["tokens"])) for one in found] == [("ada", "admin", 2)]

    assert "1 left" in runyard(capsys, "users", "remove-token", "ada", "laptop")[2]
    third = runyard(capsys, "users", "rotate", "ada")[1].strip()
    assert as_user(third).users.me().name == "ada"
    assert runyard(capsys, "users", "remove", "ada", "--yes")[0] == 0
    with pytest.raises(NotAuthenticated):
        as_user(second).users.me()
    assert "There are no users" in runyard(capsys, "users", "list")[2]


def test_faults_are_said_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    runyard(capsys, "users", "add", "bob")

    code, out, err = runyard(capsys, "users", "add", "bob")
    assert (code, out) == (1, "") and "runyard users rotate bob" in err
    assert "letters" in runyard(capsys, "users", "add", "a b")[2].lower()
    assert "admin" in runyard(capsys, "users", "add", "eve", "--role", "root")[2]
    assert "There is no user `eve`" in runyard(capsys, "users", "rotate", "eve")[2]
    runyard(capsys, "users", "remove", "bob", "--yes")


def test_the_list_of_runs_says_who_submitted_them_when_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    def submit(client: Client, run_id: str) -> None:
        client.runs.create(NewRun(make_uuid(), run_id, "default", "exp", submitted_by="owner", type=None), launch=False)

    owner = connect(read_settings())
    submit(owner, "by-owner")
    alone = runyard(capsys, "runs", "list")[1]
    submit(as_user(owner.users.add("carl").token), "by-carl")
    both = runyard(capsys, "runs", "list")[1]

    assert " BY" not in alone
    assert re.search(r" carl +by-carl$", both, re.MULTILINE) and re.search(r" owner +by-owner$", both, re.MULTILINE)
    assert re.search(r"^submitted by +carl$", runyard(capsys, "runs", "show", "by-carl")[1], re.MULTILINE)
    for run_id in ("by-owner", "by-carl"):
        owner.runs.cancel(run_id)
