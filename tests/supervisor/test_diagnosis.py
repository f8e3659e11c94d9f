"""Which rank failed first and why, from what ranks left behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.core.specs import JobSpec, NodeSpec, RunSpec
from runyard.snapshots.left_out import LeftOutRule, to_text
from runyard.supervisor.diagnosis.diagnosis import describe_failure, document_of, name_ranks
from runyard.supervisor.run_folder import RunFolder

NODES = [NodeSpec(0, "127.0.1.1", "node-0"), NodeSpec(1, "127.0.1.2", "node-1")]
JOB = JobSpec("exp_1", 1, "exp", "default", RunSpec(), None, {}, "", "cookie", "/home", nodes=NODES)
TRACEBACK = """epoch 1
Traceback (most recent call last):
  File "train.py", line 7, in <module>
    step(batch)
  File "train.py", line 3, in step
    return 1 / 0
ZeroDivisionError: division by zero
"""


class Ranks:
    """A run folder with the ends of some ranks, two on a node."""

    def __init__(self, path: Path, count: int) -> None:
        self.folder = RunFolder(str(path))
        self.folder.make_subfolders()
        self.exits: list[dict[str, Any]] = []
        self.launch: dict[str, Any] = {
            "processes": [
                {"rank": rank, "log": f"user_logs/{rank}.txt", "role": "worker", "node_rank": rank // 2}
                for rank in range(count)
            ]
        }
        self.folder.write("ranks.json", [{"rank": rank, "pid": 100 + rank} for rank in range(count)])

    def end(self, rank: int, at: int, *, log: str = "", ok: bool | None = None, **record: Any) -> None:
        self.exits.append({"rank": rank, "code": None, "signal": None, "ended_boot_ns": at, **record})
        Path(self.folder.at(f"user_logs/{rank}.txt")).write_text(log)
        if ok is not None:
            self.folder.write(f"ends/{100 + rank}.json", {"pid": 100 + rank, "ok": ok, "code": int(not ok)})

    def raised(self, rank: int, at: int, type_name: str, message: str = "", **facts: Any) -> None:
        record = {"pid": 100 + rank, "rank": rank, "boot_ns": at, "type": type_name, "message": message, **facts}
        self.folder.write(f"exceptions/{record['pid']}.json", record)

    def diagnose(self, **options: Any) -> dict[str, Any]:
        return describe_failure(self.folder, self.launch, self.exits, job=JOB, **options)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path, 4)


def test_the_first_to_fail_is_named_with_its_node_and_the_lines_that_show_why(ranks: Ranks) -> None:
    ranks.raised(3, 90, "ZeroDivisionError", "division by zero")
    ranks.end(3, 100, code=1, log=TRACEBACK)
    ranks.end(0, 200, signal=15)
    ranks.end(1, 210, signal=15)
    ranks.end(2, 220, code=0)

    error = ranks.diagnose(stopped_boot_ns=150)

    assert error["code"] == "UserError"
    assert error["message"].splitlines()[:3] == [
        "User program failed with ZeroDivisionError: division by zero",
        "Rank 3 of 4 failed first on node-1 (127.0.1.2).",
        "Ranks 0 and 1 ended because of it.",
    ]
    details = error["details"]
    assert (details["rank"], details["node"], details["address"], details["kind"]) == (
        3, "node-1", "127.0.1.2", "exception",
    )  # fmt: skip
    assert details["evidence"] == [
        {"file": "user_logs/3.txt", "line": 5, "text": '  File "train.py", line 3, in step'},
        {"file": "user_logs/3.txt", "line": 6, "text": "    return 1 / 0"},
        {"file": "user_logs/3.txt", "line": 7, "text": "ZeroDivisionError: division by zero"},
    ]
    assert [(one["rank"], one["why"]) for one in details["consequences"]] == [
        (0, "stopped after the first failure"),
        (1, "stopped after the first failure"),
    ]


@pytest.mark.parametrize(
    ("type_name", "message"),
    [
        ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
        ("BrokenPipeError", "[Errno 32] Broken pipe"),
        ("EOFError", ""),
        ("RuntimeError", "[/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.1.1]:41523"),
        ("torch.distributed.DistBackendError", "NCCL error: ncclRemoteError: A call failed possibly due to a network"),
        ("torch.distributed.DistNetworkError", "The client socket has failed to connect to any network address"),
        ("tensorflow.python.framework.errors_impl.UnavailableError", "{{function_node}} Socket closed"),
        ("horovod.common.exceptions.HorovodInternalError", "Horovod has been shut down."),
        ("mpi4py.MPI.Exception", "MPI_ERR_PROC_FAILED: Process Failure"),
    ],
)
def test_a_lost_peer_is_a_consequence_though_it_ended_earlier(ranks: Ranks, type_name: str, message: str) -> None:
    ranks.raised(0, 80, type_name, message)
    ranks.end(0, 90, code=1)
    ranks.end(2, 100, signal=11, log="Fatal Python error: Segmentation fault\n")

    details = ranks.diagnose()["details"]

    assert (details["rank"], details["kind"]) == (2, "crash")
    assert [one["rank"] for one in details["consequences"]] == [0]


def test_among_lost_peers_alone_the_earliest_is_first_and_who_left_before_is_told(ranks: Ranks) -> None:
    ranks.end(1, 50, code=0)
    for rank, at in ((0, 70), (2, 60)):
        ranks.raised(rank, at, "ConnectionResetError", "reset")
        ranks.end(rank, at + 5, code=1)

    error = ranks.diagnose()

    assert error["details"]["rank"] == 2
    assert "Rank 1 had ended before, without an error" in error["message"]


def test_the_time_of_the_exception_counts_more_than_that_of_the_exit(ranks: Ranks) -> None:
    ranks.raised(1, 10, "ValueError", "first")
    ranks.end(1, 500, code=1)
    ranks.raised(0, 20, "KeyError", "second")
    ranks.end(0, 30, code=1)

    assert ranks.diagnose()["details"]["rank"] == 1


def test_a_rank_that_never_came_is_first_when_the_others_waited_in_vain(ranks: Ranks) -> None:
    for rank in (0, 1, 3):
        ranks.raised(rank, 50 + rank, "RuntimeError", "Timed out waiting 1800000ms for recv operation to complete")
        ranks.end(rank, 60 + rank, code=1)
    ranks.end(2, 400, signal=15, log="loading the data\n")

    error = ranks.diagnose(stopped_boot_ns=300)

    assert (error["details"]["rank"], error["details"]["kind"]) == (2, "hang")
    assert "Ranks 0, 1 and 3 ended because of it." in error["message"]


def test_what_a_launcher_stopped_is_a_consequence(ranks: Ranks) -> None:
    ranks.end(0, 10, signal=15)
    ranks.end(1, 20, code=3, log="bye\n")

    details = ranks.diagnose()["details"]

    assert (details["rank"], details["kind"], details["exit_code"]) == (1, "exit code", 3)


def test_a_rank_that_its_library_ended_is_not_first_before_one_that_was_killed(ranks: Ranks) -> None:
    ranks.end(0, 10, code=14)
    ranks.end(2, 20, signal=9, oom=True)

    assert ranks.diagnose()["details"]["rank"] == 2


def test_mpirun_passes_on_what_a_rank_did(ranks: Ranks) -> None:
    ranks.launch["processes"].append({"rank": -1, "role": "mpirun", "log": "system_logs/mpirun.log"})
    ranks.exits.append({"rank": -1, "code": 139, "signal": None, "ended_boot_ns": 5})
    ranks.end(2, 10, signal=11)

    error = ranks.diagnose()

    assert error["details"]["rank"] == 2
    assert error["details"]["failed_ranks"] == [2]
    assert "Rank 2 of 4 failed first" in error["message"]


def test_a_launcher_that_failed_alone_is_named(ranks: Ranks) -> None:
    ranks.launch["processes"].append({"rank": -1, "role": "mpirun", "log": "system_logs/mpirun.log"})
    ranks.exits.append({"rank": -1, "code": 1, "signal": None, "ended_boot_ns": 5})
    Path(ranks.folder.at("system_logs/mpirun.log")).write_text("There are not enough slots\n")

    message = ranks.diagnose()["message"]

    assert message.startswith("mpirun ended with exit code 1.")
    assert "There are not enough slots" in message


CAUSES = [
    ({"signal": 9, "oom": True, "memory_limit_bytes": 8 << 30}, None, "", "out of memory", "limit 8.0 GB"),
    ({"signal": 9}, None, "", "signal", "killed by signal 9 (SIGKILL)"),
    ({"code": 1}, ("MemoryError", ""), "", "out of memory", "Memory ran out."),
    ({"code": 1}, ("bdb.BdbQuit", ""), "", "exception", "runyard submit --debug"),
    ({"code": 1}, ("torch.OutOfMemoryError", "CUDA out of memory. Tried"), "", "out of memory", "GPU's memory ran out"),
    ({"code": 1}, ("ModuleNotFoundError", "No module named 'yaml'"), "", "import error", "Add the package `pyyaml`"),
    ({"code": 1}, ("ImportError", "cannot import name 'x' from 'numpy'"), "", "import error", "could not be imported"),
    ({"code": 1}, ("OSError", "[Errno 98] Address already in use"), "", "port in use", "A port is used by another"),
    (
        {"code": 1},
        ("torch.distributed.DistNetworkError", "The server socket has failed to listen on any local network address. "
         "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"),
        "", "port in use", "Port 29500 is used by another program",
    ),
    (
        {"code": 1}, ("tensorflow.python.framework.errors_impl.UnknownError", "Could not start gRPC server"),
        "E server_lib] bind: Address already in use 127.0.1.1:2222\n", "port in use", "is used by another program",
    ),
    ({"signal": 11}, None, "x\nFatal Python error: Segmentation fault\n\nCurrent thread 0x1:\n", "crash", "SIGSEGV"),
    ({"signal": 6}, None, "terminate called after throwing 'std::bad_alloc'\n", "crash", "SIGABRT"),
    ({"code": 3}, None, "", "exit code", "exit code 3."),
    ({"code": 139}, None, "", "exit code", "a shell tells of signal 11 (SIGSEGV)"),
    ({"code": 127, "error": "cannot start 'x'"}, None, "", "no start", "could not be started: cannot start 'x'"),
    ({"unknown": True}, None, "", "unknown", "The exit code is unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "exception", "log", "kind", "words"), CAUSES, ids=lambda value: str(value)[:40])
def test_each_way_to_end_has_its_kind_and_its_words(
    tmp_path: Path, record: dict[str, Any], exception: Any, log: str, kind: str, words: str
) -> None:
    ranks = Ranks(tmp_path, 1)
    if exception:
        missing = exception[1].split("'")[1] if exception[0] == "ModuleNotFoundError" else None
        ranks.raised(0, 5, *exception, missing_module=missing)
    ranks.end(0, 10, log=log, **record)

    error = ranks.diagnose()

    assert error["details"]["kind"] == kind
    assert words in error["message"]
    assert "failed first" not in error["message"]


def test_a_crash_shows_pythons_stack_with_line_numbers(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, 1)
    log = (
        'a\nb\nFatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File "t.py"\n'
    )
    ranks.end(0, 10, signal=11, log=log)

    evidence = ranks.diagnose()["details"]["evidence"]

    assert [(one["line"], one["text"]) for one in evidence] == [
        (3, "Fatal Python error: Segmentation fault"),
        (5, "Current thread 0x1 (most recent call first):"),
        (6, '  File "t.py"'),
    ]


def test_an_abort_after_the_program_had_finished_is_shown_as_what_it_is(ranks: Ranks) -> None:
    for rank in range(4):
        if rank == 1:
            ranks.end(1, 40, signal=6, ok=True, log="loss 0.1\nterminate called without an active exception\n")
        else:
            ranks.end(rank, 10 + rank, code=0, ok=True)

    error = ranks.diagnose()

    assert error["details"]["kind"] == "abort at exit"
    assert "had come to its end without an error" in error["message"]
    assert error["details"]["evidence"][0] == {
        "file": "user_logs/1.txt", "line": 2, "text": "terminate called without an active exception",
    }  # fmt: skip


def test_an_abort_at_exit_is_not_first_before_a_real_failure(ranks: Ranks) -> None:
    ranks.end(1, 40, signal=6, ok=True)
    ranks.raised(2, 60, "ValueError", "bad")
    ranks.end(2, 70, code=1, ok=False)

    assert ranks.diagnose()["details"]["rank"] == 2


def test_an_exception_that_ends_in_an_abort_is_still_that_exception(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, 1)
    ranks.raised(0, 5, "ValueError", "bad")
    ranks.end(0, 10, signal=6, ok=False)

    assert ranks.diagnose()["message"].splitlines()[0] == "User program failed with ValueError: bad"


def test_a_launcher_of_the_users_own_does_not_hide_its_childs_exception(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, 1)
    ranks.raised(0, 50, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "train.py FAILED")
    for pid, at, message in ((201, 30, "the first"), (200, 40, "the second")):
        ranks.raised(0, at, "ValueError", message, pid=pid)
    ranks.end(0, 60, code=1)

    assert ranks.diagnose()["message"].splitlines()[0] == "User program failed with ValueError: the first"


@pytest.mark.parametrize(
    "text", ['{"type": 5}', '{"type": "E", "boot_ns": "x", "message": [1], "rank": "y"}', "[]", "{", '{"type": null}']
)
def test_what_a_program_writes_in_the_place_of_an_exception_stops_nothing(tmp_path: Path, text: str) -> None:
    ranks = Ranks(tmp_path, 1)
    (tmp_path / "exceptions/100.json").write_text(text)
    ranks.end(0, 10, code=1)

    assert ranks.diagnose()["details"]["rank"] == 0


def test_lines_of_a_long_log_keep_their_numbers(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, 1)
    ranks.end(0, 10, code=2, log="".join(f"line {number} {'x' * 60}\n" for number in range(1, 5001)))

    evidence = ranks.diagnose()["details"]["evidence"]

    assert [one["line"] for one in evidence] == [4998, 4999, 5000]
    assert evidence[-1]["text"].startswith("line 5000 ")


def test_diagnosis_json_holds_all_but_the_logs_last_lines(ranks: Ranks) -> None:
    ranks.end(1, 20, code=3, log="bye\n")
    ranks.end(0, 30, signal=15)

    document = json.loads(json.dumps(document_of(ranks.diagnose(stopped_boot_ns=25))))

    assert document["format"] == 1
    assert (document["rank"], document["kind"], document["exit_code"]) == (1, "exit code", 3)
    assert document["message"].splitlines()[-1] == "Rank 0 ended because of it."
    assert "last_lines" not in document


@pytest.mark.parametrize(
    ("ranks_named", "text"),
    [([2], "Rank 2"), ([2, 1], "Ranks 1 and 2"), ([0, 1, 2], "Ranks 0, 1 and 2")],
)
def test_ranks_are_named_as_people_do(ranks_named: list[int], text: str) -> None:
    assert name_ranks(ranks_named) == text


def test_of_many_ranks_some_are_named() -> None:
    assert name_ranks(range(64)) == "Ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 53 more"


@pytest.mark.parametrize(
    ("type_name", "message", "facts", "named"),
    [
        ("FileNotFoundError", "[Errno 2] No such file or directory", {"missing_file": "{work}/data/x.csv"}, "data/"),
        ("OSError", "[Errno 2] Unable to open file (name = 'm/best.pt', errno = 2)", {}, "m/best.pt"),
        ("my.lib.LoadError", "cannot load", {"missing_file": "{work}/data"}, "data/"),
        ("tensorflow.errors.NotFoundError", "data/x.csv; No such file or directory", {}, "data/"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'other.csv'", {}, ""),
        ("FileNotFoundError", "", {"missing_file": "/elsewhere/data/x.csv"}, ""),
        ("ValueError", "column 'data' is empty", {}, ""),
    ],
)
def test_a_missing_file_that_a_rule_left_out_is_explained(
    ranks: Ranks, type_name: str, message: str, facts: dict[str, str], named: str
) -> None:
    rules = [
        LeftOutRule(".gitignore", 3, "data/", ["data/"], 12, 3_000_000, True),
        LeftOutRule("m/.gitignore", 1, "*.pt", ["m/last.pt"], 1, 5, False),
    ]
    job = replace(JOB, left_out=to_text(rules))
    work = ranks.folder.at("work")
    ranks.raised(0, 5, type_name, message, **{key: value.format(work=work) for key, value in facts.items()})
    ranks.end(0, 6, code=1)
    message = describe_failure(ranks.folder, ranks.launch, ranks.exits, job=job)["message"]

    assert ("is not in the run's snapshot" in message) == bool(named)
    if named == "data/":
        assert "line 3 of `.gitignore` (`data/`) leaves `data/` out (12 file(s), 3.0 MB in all)" in message
    elif named:
        assert "line 1 of `m/.gitignore` (`*.pt`) leaves `m/best.pt` out (more than 1 file(s), 5 bytes" in message
        assert "`!m/best.pt`" in message
