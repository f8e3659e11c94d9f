"""The filter language: what it means, and errors that point at the place."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import (
    MAX_COMPARISONS,
    MAX_DEPTH,
    MAX_LENGTH,
    Comparison,
    Field,
    Filter,
    Junction,
    Negation,
    conjuncts,
    fitting,
    holds,
    parse_field,
    parse_filter,
    quoted,
)

LOSS = Comparison("metrics", "<", 0.1, "loss")
TEAM = Comparison("tags", "=", "x", "team")
DONE = Comparison("status", "=", "Completed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metrics.loss < 0.1", LOSS),
        ("metrics.loss<1e-1", LOSS),
        ("tags.team == 'x'", TEAM),
        ("status = completed", DONE),
        ('metrics."val loss" >= -2', Comparison("metrics", ">=", -2.0, "val loss")),
        ("metrics.a.b/c > inf", Comparison("metrics", ">", float("inf"), "a.b/c")),
        (r'tags.t = "say \"hi\" \\"', Comparison("tags", "=", 'say "hi" \\', "t")),
        ("params.lr != 0.10", Comparison("params", "!=", "0.10", "lr")),
        ("params.lr <= 1e-2", Comparison("params", "<=", 0.01, "lr")),
        ("tags.team = 3", Comparison("tags", "=", "3", "team")),
        ("target = gpu", Comparison("target", "=", "gpu")),
        ("user = eve", Comparison("user", "=", "eve")),
        ("not type", Negation(Comparison("type", "present"))),
        ("number >= 12", Comparison("number", ">=", 12.0)),
        ("duration > 90", Comparison("duration", ">", 90.0)),
        ("duration <= 1.5h", Comparison("duration", "<=", 5400.0)),
        ("properties.git", Comparison("properties", "present", None, "git")),
        ("created >= 2026-11-15", Comparison("created", ">=", datetime(2026, 11, 15, tzinfo=timezone.utc))),
        (
            "created < 2026-11-15T10:30:00.5+02:00",
            Comparison("created", "<", datetime(2026, 11, 15, 8, 30, 0, 500000, tzinfo=timezone.utc)),
        ),
        ('metrics.loss < 0.1 AND tags.team = "x"', Junction("and", (LOSS, TEAM))),
        (
            "tags.team = x or status = Completed and metrics.loss < .1",
            Junction("or", (TEAM, Junction("and", (DONE, LOSS)))),
        ),
        (
            "(tags.team = x or not status = Completed) and metrics.loss < 0.1",
            Junction("and", (Junction("or", (TEAM, Negation(DONE))), LOSS)),
        ),
    ],
)
def test_a_filter_is_read(text: str, expected: Filter) -> None:
    assert parse_filter(text) == expected
    assert parse_filter(f"\n  ( {text}\t) ") == expected


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", 1, "ends where a field should be"),
        ("metric.loss < 1", 1, "Did you mean `metrics`?"),
        ("zzz = 1", 1, "There are: status, experiment"),
        ("status.x = 1", 1, "no field `status.x`"),
        ("metrics < 1", 1, "needs a name"),
        ('metrics. "loss" < 1', 1, "needs a name"),
        ("metrics.loss < low", 16, "with a number"),
        ("metrics.loss < nan", 16, "with a number"),
        ("metrics.loss <", 15, "A value should be here"),
        ("status", 7, "a comparison should be"),
        ("number = many", 10, "with a number"),
        ("duration > long", 12, "90s, 15m, 2h, 1d"),
        ("user < eve", 6, "by = or != only"),
        ("status = Done", 10, "Completed"),
        ("name < x", 6, "by = or != only"),
        ("tags.team < low", 13, "with a number only"),
        ('tags.team < "3"', 13, "with a number only"),
        ("created > yesterday", 11, "2026-11-15"),
        ("created > 2026-13-01", 11, "2026-11-15"),
        ("tags.a = 'x", 10, "not closed"),
        ("tags.a ! x", 8, "`!` means nothing"),
        ("tags.a = x tags.b = y", 12, "`and`, `or`"),
        ("(tags.a = x", 12, "closing `)`"),
        ("tags.a = x)", 11, "`)`"),
        ("tags.a = x and", 15, "ends where a field should be"),
        ("not", 4, "ends where a field should be"),
    ],
)
def test_an_error_points_at_the_place(text: str, at: int, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"at character {at}\\.") as caught:
        parse_filter(text)

    assert why in caught.value.what
    shown, caret = caught.value.why.split("\n")
    assert shown == f"  {text}" and caret == " " * (at + 1) + "^"
    assert "metrics.loss < 0.1 and" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("tags.a = '" + "x" * MAX_LENGTH + "'", id="long"),
        pytest.param("(" * (MAX_DEPTH + 2) + "tags.a" + ")" * (MAX_DEPTH + 2), id="deep"),
        pytest.param("not " * (MAX_DEPTH + 2) + "tags.a", id="deep in nots"),
        pytest.param(" or ".join(["tags.a"] * (MAX_COMPARISONS + 1)), id="many"),
    ],
)
def test_what_is_too_large_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"most|deep|more than"):
        parse_filter(text)


@given(st.text(alphabet="()<>=!\"'\\. \nandortgsmec019-é", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_filter(text)
    except InvalidArgument:
        return
    assert holds(found, lambda _: True) in (True, False)


def test_truth_follows_the_words() -> None:
    wanted = parse_filter("not tags.a and (tags.b or tags.c)")

    assert holds(wanted, lambda one: one.key == "b")
    assert not holds(wanted, lambda one: True)
    assert not holds(wanted, lambda one: False)


def test_only_what_every_run_must_fit_is_a_conjunct() -> None:
    keys = [one.key for one in conjuncts(parse_filter("tags.a and (tags.b and not tags.c) and (tags.d or tags.e)"))]

    assert keys == ["a", "b"]
    assert conjuncts(None) == []


@given(st.text(max_size=40))
def test_any_text_can_be_compared_with_when_it_is_quoted(text: str) -> None:
    assert parse_filter(f"name = {quoted(text)} and tags.a = x") == Junction(
        "and", (Comparison("name", "=", text), Comparison("tags", "=", "x", "a"))
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("status", Field("status")),
        ("metrics.val loss", Field("metrics", "val loss")),
        ('tags.say "hi".x', Field("tags", 'say "hi".x')),
    ],
)
def test_a_field_is_read_and_its_filter_asks_for_it(text: str, field: Field) -> None:
    assert parse_field(text) == field and field.title == text
    assert (
        parse_filter(fitting(field, {"status": "Completed", "metrics": 0.5}.get(field.name, "1"))).field == field.name
    )  # type: ignore[union-attr]  # a Comparison
    if field.key:
        assert parse_filter(fitting(field, None)) == Negation(Comparison(field.name, "present", None, field.key))


@pytest.mark.parametrize("text", ["colour", "status.x", "metrics", "tags.", ""])
def test_an_unknown_field_is_answered_with_the_known(text: str) -> None:
    with pytest.raises(InvalidArgument, match="There is no field") as caught:
        parse_field(text)
    assert caught.value.hint
