"""A service in the database: its record, and its secrets, sealed."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runyard.core.errors import NotFound
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.records import Asset
from runyard.core.specs import RunSpec
from runyard.core.webservices import (
    FAILED,
    KIND,
    PRIMARY,
    READY,
    SECONDARY,
    STARTING,
    RevisionSpec,
    ServiceRevision,
    Webservice,
)
from runyard.engine.sanitize import HIDDEN, redact
from runyard.server.access.vault import Vault
from runyard.serving.config import RevisionConfig, ServiceConfig
from runyard.serving.protocol import Json
from runyard.serving.tokens import digest_of, make_key
from runyard.store.base import RunStore

_TOKENS, _WORKERS = "tokens", "workers"  # secrets beside the keys
_SPEC = "revision-"  # and of revisions
_LOCAL = "Local"


@dataclass(frozen=True)
class Stored:
    record: Webservice
    sealed: Mapping[str, str]


class ServiceStore:
    """Services as assets; their secrets open with the server's key alone."""

    def __init__(self, store: RunStore, vault: Vault) -> None:
        self._store = store
        self._vault = vault

    def list_all(self) -> list[Stored]:
        return [one for workspace in self._store.list_workspaces() for one in self.list(workspace.name)]

    def list(self, workspace: str) -> list[Stored]:
        return [_read(asset) for asset in self._store.list_assets(workspace, KIND)]

    def find(self, workspace: str, name: str) -> Stored | None:
        found = self._store.list_assets(workspace, KIND, name=name)
        return _read(found[-1]) if found else None

    def get(self, workspace: str, name: str) -> Stored:
        """Raises NotFound, in Azure's word."""
        found = self.find(workspace, name)
        if found is None:
            known = [one.record.name for one in self.list(workspace)]
            raise NotFound(
                f"WebserviceNotFound: there is no web service `{name}` in workspace `{workspace}`.",
                why=f"Known here: {', '.join(known[:20]) or 'none yet'}.",
                hint="`runyard services list` shows them all.",
            )
        return found

    def make(self, record: Webservice, *, primary: str | None, secondary: str | None) -> Stored:
        """Return a new service, with keys of its own unless some are given."""
        values = {
            PRIMARY: primary or make_key(),
            SECONDARY: secondary or make_key(),
            _TOKENS: make_key(),
            _WORKERS: make_key(),
        }
        sealed = {name: self._vault.seal(record.workspace, _place(record, name), text) for name, text in values.items()}
        return Stored(record, sealed)

    def add(self, stored: Stored) -> None:
        record = stored.record
        self._store.put_asset(record.workspace, KIND, record.name, _plain(stored), owner=record.owner)

    def save(self, stored: Stored) -> None:
        record = stored.record
        self._store.edit_asset(record.workspace, KIND, record.name, lambda _: _plain(stored))

    def delete(self, record: Webservice) -> None:
        self._store.delete_asset(record.workspace, KIND, record.name)

    def key(self, stored: Stored, which: str) -> str:
        record = stored.record
        return self._vault.open(record.workspace, _place(record, which), stored.sealed[which])

    def with_key(self, stored: Stored, which: str, value: str | None) -> Stored:
        """Return the service with another key: the one that is given, or a new one."""
        record = stored.record
        sealed = self._vault.seal(record.workspace, _place(record, which), value or make_key())
        return replace(stored, sealed={**stored.sealed, which: sealed})

    def seal_spec(self, stored: Stored, number: int, spec: RevisionSpec) -> tuple[Stored, RevisionSpec]:
        """Return the service, and a new revision's spec as it is shown: the service keeps what is hidden in it.

        What a client sends back as it was shown it, hidden, is what it was.
        """
        for revision in stored.record.revisions:
            if f"{_SPEC}{revision.number}" in stored.sealed:
                spec = _unhidden(spec, revision.spec, self.whole_spec(stored, revision))
        run = RunSpec(environment=spec.environment, variables=spec.variables, definition=spec.definition)
        shown = redact(run)
        if shown is run:
            return stored, spec
        record = stored.record
        text = json.dumps(to_plain(spec))
        sealed = self._vault.seal(record.workspace, _place(record, f"{_SPEC}{number}"), text)
        hidden = replace(
            spec, environment=shown.environment, variables=shown.variables, definition=dict(shown.definition)
        )
        return replace(stored, sealed={**stored.sealed, f"{_SPEC}{number}": sealed}), hidden

    def whole_spec(self, stored: Stored, revision: ServiceRevision) -> RevisionSpec:
        """Return what the revision's replicas are given, secrets too."""
        name = f"{_SPEC}{revision.number}"
        if name not in stored.sealed:
            return revision.spec
        return from_plain(RevisionSpec, json.loads(self.key(stored, name)))

    def token_secret(self, stored: Stored) -> str:
        return self.key(stored, _TOKENS)

    def worker_token(self, stored: Stored, revision: int) -> str:
        """Return what the workers of a revision say to the gateway; the same each time."""
        secret = self.key(stored, _WORKERS).encode()
        return hmac.new(secret, f"{stored.record.id}\n{revision}".encode(), hashlib.sha256).hexdigest()

    def gateway_config(self, stored: Stored, *, version: str) -> ServiceConfig:
        """Return what the gateway is told of a service."""
        record, settings = stored.record, stored.record.settings
        auth = bool(settings.auth or settings.token_auth)
        is_local = settings.compute_type == _LOCAL
        keys = (PRIMARY, SECONDARY) if settings.auth else ()
        served = [one for one in record.revisions if one.state in (STARTING, READY)]
        if not record.current and not served:
            served = [one for one in record.revisions if one.state == FAILED][-1:]
        weights = tuple((number, share) for number, share in record.weights.items() if share > 0)
        return ServiceConfig(
            name=record.route,
            id=record.id,
            auth=auth,
            keys=tuple(digest_of(self.key(stored, which)) for which in keys),
            token_secret=self.token_secret(stored) if settings.token_auth else "",
            revisions=tuple(self._revision_config(stored, one) for one in served),
            weights=tuple(one for one in weights if any(rev.number == one[0] for rev in served)),
            port=settings.port,
            cors_origins=tuple(settings.cors_origins),
            failure_status=500 if is_local else 502,
            timeout_status=500 if is_local else 504,
            server_version=version,
        )

    def _revision_config(self, stored: Stored, revision: ServiceRevision) -> RevisionConfig:
        spec, failed = revision.spec, ""
        if revision.state == FAILED:
            failed = str((revision.error or {}).get("message", "")).partition("\n")[0] or "The service failed to start"
        return RevisionConfig(
            number=revision.number,
            worker_token=digest_of(self.worker_token(stored, revision.number)),
            scoring_timeout_ms=spec.scoring_timeout_ms,
            max_wait_ms=spec.max_wait_ms,
            cold_start_ms=spec.cold_start_ms,
            failed=failed,
        )


def _read(asset: Asset) -> Stored:
    document: Mapping[str, Any] = asset.document
    return Stored(from_plain(Webservice, document["record"]), dict(document["sealed"]))


def _unhidden(spec: RevisionSpec, shown: RevisionSpec, whole: RevisionSpec) -> RevisionSpec:
    """Return the spec with the secrets of an earlier revision, where it says what that one shows of them."""
    environment = spec.environment
    if replace(environment, variables={}) == replace(shown.environment, variables={}):
        environment = replace(whole.environment, variables=environment.variables)
    known = (shown.environment.variables, whole.environment.variables)
    return replace(
        spec,
        environment=replace(environment, variables=_with_secrets(environment.variables, *known)),
        variables=_with_secrets(spec.variables, shown.variables, whole.variables),
        definition=whole.definition if spec.definition == shown.definition else spec.definition,
    )


def _with_secrets(given: Mapping[str, str], shown: Mapping[str, str], whole: Mapping[str, str]) -> dict[str, str]:
    return {
        name: whole[name] if HIDDEN in value and value == shown.get(name) and name in whole else value
        for name, value in given.items()
    }


def _plain(stored: Stored) -> Json:
    return {"record": to_plain(stored.record), "sealed": dict(stored.sealed)}


def _place(record: Webservice, name: str) -> str:
    return f"{KIND}/{record.id}/{name}"
