"""Dataclasses that are made when they are used are the standard library's in every way."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import field
from typing import Any, ClassVar, List

import pytest

from runyard.core import lazy_dataclass
from runyard.core.lazy_dataclass import dataclass, make_all


@dataclass(frozen=True)
class Base:
    name: str
    sizes: List[int] = field(default_factory=list)
    KIND: ClassVar[str] = "base"


@dataclass(frozen=True)
class Below(Base):
    depth: int = 0


@dataclass(frozen=True)
class Own:
    value: int

    def __repr__(self) -> str:
        return "mine"


def fresh(**options: Any) -> Any:
    @dataclass(**options)
    class Fresh:
        name: str
        size: int = 3

    return Fresh


def is_pending(cls: type) -> bool:
    return cls in lazy_dataclass._PENDING


def test_nothing_is_made_until_it_is_used() -> None:
    cls = fresh(frozen=True)
    assert is_pending(cls)
    assert repr(cls("a")).endswith("Fresh(name='a', size=3)")
    assert not is_pending(cls)


@pytest.mark.parametrize(
    "use",
    [dataclasses.fields, dataclasses.is_dataclass, lambda cls: cls("a") == cls("a"), lambda cls: hash(cls("a"))],
)
def test_every_use_makes_it(use: Any) -> None:
    cls = fresh(frozen=True)
    assert use(cls)
    assert not is_pending(cls)


def test_it_is_a_dataclass_like_any_other() -> None:
    one = Below("a", depth=2)
    assert [item.name for item in dataclasses.fields(Below)] == ["name", "sizes", "depth"]
    assert dataclasses.replace(one, name="b") == Below("b", [], 2) != one
    assert one.sizes is not Below("a").sizes
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert repr(Own(1)) == "mine"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "c"  # type: ignore[misc]
    with pytest.raises(TypeError, match="name"):
        Base()  # type: ignore[call-arg]


def test_a_plain_class_below_a_frozen_one_keeps_its_own_names_free() -> None:
    class Plain(Below):
        extra = 0

    one = Plain("a")
    one.extra = 7
    assert one.extra == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]


def test_equality_and_hash_follow_the_options() -> None:
    changing = fresh()
    assert changing("a") == changing("a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(changing("a"))
    assert fresh(eq=False)("a") != fresh(eq=False)("a")


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty_threads")
def test_many_threads_make_it_once() -> None:
    for _ in range(200):
        cls, start = fresh(frozen=True), threading.Barrier(8)
        made: List[Any] = []

        def use(cls: Any = cls, start: threading.Barrier = start, made: list[Any] = made) -> None:
            start.wait()
            made.append(cls("a"))

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [cls("a")] * 8


def test_all_can_be_made_ahead() -> None:
    classes = [fresh(), fresh(frozen=True)]
    make_all()
    assert not any(is_pending(cls) for cls in classes) and not lazy_dataclass._PENDING
