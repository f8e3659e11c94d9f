"""The base of configuration objects, and the checks of values from configuration files.

A configuration object refuses misspelt attributes and prints itself as Azure's camelCase dict. The functions below it
check each value of a user's file and name its place in the error.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, List, Type

from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import warn_once
from runyard.sdk.exceptions import UserErrorException


class SealedConfig(AzureClass):
    """Call `_seal()` at the end of `__init__`: from then on only known attributes can be set."""

    _unused: FrozenSet[str] = frozenset()  # names that old scripts set: accepted, kept, without effect

    def __setattr__(self, name: str, value: Any) -> None:
        if "_sealed" in self.__dict__ and not self._knows(name):
            raise AttributeError(self._unknown(name))
        object.__setattr__(self, name, value)

    def to_plain(self) -> Dict[str, Any]:
        """Return the settings as Azure's run definitions hold them: camelCase keys, in the order of `__init__`."""
        return {_camel(name): plain(getattr(self, name)) for name in self._names()}

    def read_plain(self, found: Any, where: str = "") -> None:
        """Take over the settings of a file: the reverse of `to_plain`. What the file leaves out stays as it is.

        Raises:
            UserErrorException: a misspelt key, or a value of another kind.
        """

        names = {_camel(name): name for name in self._names()}
        for key, value in checked_mapping(found, where).items():
            place = f"{where}.{key}" if where else str(key)
            name = names.get(key)
            if name is None:
                if key not in {_camel(unused) for unused in self._unused}:
                    report_unknown(str(key), names, place)
                continue
            current = getattr(self, name)
            if isinstance(current, SealedConfig):
                current.read_plain(value, place)
            else:
                setattr(self, name, checked_value(current, value, place))

    def _seal(self) -> None:
        self.__dict__["_sealed"] = True

    def _knows(self, name: str) -> bool:
        return name.startswith("_") or name in self.__dict__ or name in self._unused or hasattr(type(self), name)

    def _names(self) -> List[str]:
        """Attribute names; one kept behind a property (`_x` with a property `x`) counts under its public name."""
        names = []
        for name in self.__dict__:
            public = (
                name[1:] if name.startswith("_") and isinstance(getattr(type(self), name[1:], None), property) else name
            )
            if not public.startswith("_") and public not in self._unused:
                names.append(public)
        return names

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches  # only for the message

        names = self._names()
        near = get_close_matches(name, names, n=1, cutoff=0.6)
        hint = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(sorted(names))}."
        return f"{type(self).__name__} has no attribute `{name}`. {hint}"

    def __repr__(self) -> str:
        import json  # only for people

        return json.dumps(self.to_plain(), indent=4, default=str)


def plain(value: Any) -> Any:
    """Return `value` with configuration objects inside turned into dicts. Keys of dicts are the user's own and stay."""
    if isinstance(value, SealedConfig):
        return value.to_plain()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_KINDS: Dict[Type[Any], str] = {
    dict: "`key: value` lines",
    list: "a list",
    bool: "true or false",
    int: "a whole number",
    str: "a text",
}


def checked_mapping(found: Any, place: str) -> Dict[str, Any]:
    if found is None:
        return {}
    if isinstance(found, dict):
        return found
    raise _wrong(dict, found, place)


def checked_value(current: Any, value: Any, place: str) -> Any:
    """Return `value`, which takes the place of `current` and must be of its kind; null empties lists and texts."""
    kind = next((kind for kind in (bool, int, dict, list, str) if isinstance(current, kind)), None)
    if kind is None or type(value) is kind:
        return value
    if value is None:
        return current if kind in (bool, int) else None if kind is str else kind()
    if kind is str and not isinstance(value, (dict, list)):
        return str(value)
    raise _wrong(kind, value, place)


def variable_values(found: Dict[str, Any]) -> Dict[str, str]:
    """Return environment variables as the file spells them: `true` is the text true, and nothing is an empty text."""
    return {str(name): "" if value is None else _spelt(value) for name, value in found.items()}


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def report_unknown(key: str, known: Iterable[str], place: str) -> None:
    """Refuse a misspelt key; one that resembles none, such as a newer SDK's, is reported as without effect."""
    from difflib import get_close_matches  # only for the message

    spelt = {_letters(name): name for name in known}
    near = get_close_matches(_letters(key), spelt, n=1, cutoff=0.75)
    if near:
        raise UserErrorException(f"The key `{place}` is not known. Did you mean `{spelt[near[0]]}`?")
    warn_once(f"The key `{place}` is not known and has no effect.")


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _wrong(kind: Type[Any], value: Any, place: str) -> UserErrorException:
    return UserErrorException(f"`{place}` must be {_KINDS[kind]}, found {value!r:.100}.")
