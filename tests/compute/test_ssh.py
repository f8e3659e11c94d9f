"""The backend `ssh` without a machine: what it reports, which words it gives to ssh, what it says of failures."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.compute.ssh.backend import SshBackend
from runyard.compute.ssh.client import Host, NodeStand, Questions, SshClient, explain, report_of
from runyard.core.config.settings import Settings
from runyard.core.errors import NotTrusted, SubmitRejected, SystemFailure, UserError
from runyard.core.specs import DistributionSpec, JobSpec, RunSpec

GONE, ALIVE, WAITING, ORPHANED = JobState.GONE, JobState.ALIVE, JobState.WAITING, JobState.ORPHANED
A, B = Host("hostA"), Host("hostB", 2222)
ONE = JobHandle("exp_1_0000abcd", 1)


def stand(
    rank: int, state: JobState, *, host: str = "hostA", why: str = "", cause: EndCause = EndCause.UNKNOWN
) -> NodeStand:
    return NodeStand(host, rank, 2, state, why, cause)


@pytest.mark.parametrize(
    ("nodes", "silent", "expected"),
    [
        ([], {}, JobReport(GONE)),
        ([], {"hostB": "no route"}, JobReport(JobState.UNKNOWN, "hostB does not answer: no route")),
        ([stand(0, ALIVE), stand(1, ALIVE)], {"hostC": "no route"}, JobReport(ALIVE)),
        ([stand(0, ALIVE)], {"hostB": "no route"}, JobReport(ALIVE, "hostB does not answer: no route")),
        (
            [stand(0, GONE, cause=EndCause.ENDED)],
            {"hostB": "?"},
            JobReport(JobState.UNKNOWN, "hostB does not answer: ?"),
        ),
        ([stand(0, WAITING), stand(1, ORPHANED, host="b")], {}, JobReport(ORPHANED, "b: has no supervisor")),
        ([stand(0, WAITING, why="gets code"), stand(1, GONE)], {}, JobReport(WAITING, "hostA: gets code")),
        ([stand(0, ALIVE), stand(1, GONE, why="killed")], {}, JobReport(ALIVE, "hostA: killed")),
        (
            [stand(0, GONE, cause=EndCause.ENDED), stand(1, GONE, why="started again", cause=EndCause.NODE_LOST)],
            {},
            JobReport(GONE, "hostA: started again", EndCause.NODE_LOST),
        ),
        (
            [stand(0, ALIVE), stand(1, GONE, why="no space left", cause=EndCause.NODE_LOST)],
            {},
            JobReport(GONE, "hostA: no space left", EndCause.NODE_LOST),
        ),
        (
            [
                stand(0, GONE, why="taken", cause=EndCause.NODE_LOST),
                stand(0, GONE, cause=EndCause.ENDED),
                stand(1, ALIVE),
            ],
            {},
            JobReport(ALIVE, "hostA: is gone"),
        ),
        ([stand(0, GONE, why="old"), stand(0, ALIVE, host="b"), stand(1, ALIVE)], {}, JobReport(ALIVE)),
    ],
)
def test_a_job_stands_as_its_nodes_do_and_a_silent_host_proves_nothing(
    nodes: Sequence[NodeStand], silent: Mapping[str, str], expected: JobReport
) -> None:
    assert report_of(nodes, silent) == expected


def test_a_host_that_accepts_and_says_nothing_holds_up_nobody_and_is_asked_once() -> None:
    may_answer = threading.Event()
    asked: list[Host] = []

    def ask(host: Host, handles: Sequence[JobHandle]) -> Any:
        asked.append(host)
        if host == B:
            assert may_answer.wait(30)
        return {"jobs": [[{"rank": 0}] for _ in handles]}

    questions = Questions([A, B], ask, patience_s=0.05)
    for _ in range(2):
        answers = questions.ask([ONE])
        assert answers[A].jobs == {ONE: [{"rank": 0}]} and not answers[A].fault
        assert answers[B].jobs == {} and "said nothing" in answers[B].fault
    assert asked.count(B) == 1
    may_answer.set()
    questions.close()


def test_a_host_that_fails_is_silent_with_the_reason() -> None:
    def ask(host: Host, handles: Sequence[JobHandle]) -> Any:
        raise SystemFailure("The machine does not answer.", why="ssh says: no route to host.")

    questions = Questions([A], ask)
    assert questions.ask([ONE])[A].fault == "ssh says: no route to host."
    questions.close()


class TestBackend:
    @pytest.fixture
    def backend(self, home: Path) -> Any:
        hosts = [{"address": "hostA", "port": 22, "slots": 2}, {"address": "hostB", "port": 2222, "slots": 1}]
        backend = SshBackend(Settings(home=home), {"hosts": hosts, "username": "me", "shared_folder": "/shared"})
        yield backend
        backend.close()

    def job(self, nodes: int, slots: list[int]) -> JobSpec:
        spec = RunSpec(script="train.py", distribution=DistributionSpec(kind="pytorch", node_count=nodes))
        return JobSpec("exp_1_0000abcd", 1, "exp", "default", spec, None, {}, "secret", "c", "/h", slots=slots)

    def test_a_plan_names_the_hosts_of_its_slots(self, backend: SshBackend) -> None:
        request = backend.plan(self.job(2, [2, 1]))

        assert request.resources == {"hosts": ["hostA", "hostB:2222"]}
        assert request.job.is_gang and request.job.shared_folder == "/shared"
        assert "secret" not in " ".join(request.argv) and request.argv[0] == "ssh"

    def test_a_host_that_does_not_answer_closes_its_slots_until_it_does(self, home: Path) -> None:
        class Stub(SshClient):
            away: ClassVar[set[str]] = {"hostA"}

            def call(self, host: Host, request: Mapping[str, Any], **options: Any) -> Any:
                if host.address in self.away:
                    raise SystemFailure(f"The machine {host} does not answer.")
                return {}

        hosts = [{"address": "hostA", "slots": 2}, {"address": "hostB", "slots": 1}]
        client = Stub(Settings(home=home), {"hosts": hosts})
        backend = SshBackend(Settings(home=home), {"hosts": hosts}, client=client)
        assert backend.closed_slots() == frozenset()
        with pytest.raises(SystemFailure, match="hostA does not answer"):
            backend.end(ONE)
        assert backend.closed_slots() == frozenset({0, 2})
        client.away.clear()
        backend.end(ONE)
        assert backend.closed_slots() == frozenset()
        backend.close()

    def test_more_nodes_than_slots_are_refused_and_slots_that_are_gone_wait(self, backend: SshBackend) -> None:
        with pytest.raises(SubmitRejected, match="asks for 4 nodes") as caught:
            backend.plan(self.job(4, []))
        assert "3 slots" in caught.value.why
        with pytest.raises(SystemFailure, match="slots"):
            backend.plan(self.job(1, [3]))


@pytest.mark.parametrize(
    ("words", "code", "kind", "expected"),
    [
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", 255, NotTrusted, "ssh-keygen -R"),
        ("No ED25519 host key is known for hostA\nHost key verification failed.", 255, NotTrusted, "ttach the target"),
        ("me@hostA: Permission denied (publickey).", 255, UserError, "authorized_keys"),
        ("ssh: connect to host hostA port 22: Connection refused", 255, SystemFailure, "Is it up"),
        ("", 255, SystemFailure, "Is it up"),
        ("sh: 1: exec: python3: not found", 127, UserError, "Python 3.8"),
        ("it is Python 3.6.8", 1, UserError, "Python 3.8"),
    ],
)
def test_what_ssh_says_becomes_what_a_user_can_do(
    words: str, code: int, kind: type[Exception], expected: str, home: Path
) -> None:
    client = SshClient(Settings(home=home), {"username": "me"})
    error = explain(A, words, code=code, client=client)

    assert type(error) is kind and "hostA" in error.what and expected in error.hint
