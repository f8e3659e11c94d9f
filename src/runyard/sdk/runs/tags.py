"""Tags and properties of a run."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Union

from runyard.sdk.config.texts import property_texts, tag_texts
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.runs.metrics import RunMetrics


@raises_azure_errors
class RunTags(RunMetrics):
    @property
    def tags(self) -> Dict[str, Optional[str]]:
        return self.get_tags() if self._writes_here() else dict(self._facts.tags)

    def get_tags(self) -> Dict[str, Optional[str]]:
        self._flush_own()
        return dict(self._refresh().tags)

    def tag(self, key: str, value: Optional[str] = None) -> None:
        """Set one tag; without a value the key alone counts."""
        self.set_tags({key: value})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        texts = tag_texts(tags)
        if self._writes_here():
            self._journal().set_tags(texts)
        else:
            self._record = self._client.runs.update(self._run_id, tags_set=texts)

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        keys = [tags] if isinstance(tags, str) else [*tags]
        if self._writes_here():
            self._journal().remove_tags(keys)
        else:
            self._record = self._client.runs.update(self._run_id, tags_remove=keys)

    @property
    def properties(self) -> Dict[str, str]:
        return self.get_properties() if self._writes_here() else dict(self._facts.properties)

    def get_properties(self) -> Dict[str, str]:
        self._flush_own()
        return dict(self._refresh().properties)

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        """Add properties. One that exists cannot be changed.

        Raises:
            UserErrorException: one exists with another value.
        """
        texts = property_texts(properties)
        if self._writes_here():
            self._journal().add_properties(texts)
        else:
            self._record = self._client.runs.update(self._run_id, properties_add=texts)
