"""Which models a search means. Pure."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Union

from runyard.core.models import ModelSpec

Search = Optional[Sequence[Union[str, Sequence[str]]]]


def matches(
    spec: ModelSpec,
    tags: Search = None,
    properties: Search = None,
    *,
    run_id: Optional[str] = None,
    dataset_id: Optional[str] = None,
    framework: Optional[str] = None,
) -> bool:
    """Whether a model has all that is asked for; `tags` and `properties` are `['key', ['key', 'value'], …]`."""
    return (
        _has_all(spec.tags, tags)
        and _has_all(spec.properties, properties)
        and run_id in (None, spec.run_id)
        and framework in (None, spec.framework)
        and (dataset_id is None or any(dataset == dataset_id for _, dataset in spec.datasets))
    )


def _has_all(values: Mapping[str, str], wanted: Search) -> bool:
    if isinstance(wanted, Mapping):
        return all(values.get(str(key)) == str(value) for key, value in wanted.items())
    return all(_has(values, one) for one in wanted or ())


def _has(values: Mapping[str, str], one: Union[str, Sequence[str]]) -> bool:
    if isinstance(one, str):
        return one in values
    key, *value = one
    return values.get(str(key)) == str(value[0]) if value else str(key) in values
