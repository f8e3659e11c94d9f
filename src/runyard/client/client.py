"""The typed client: one attribute per resource."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from runyard.client.address import Address
from runyard.client.transport import Transport

if TYPE_CHECKING:
    from runyard.client.calls.content import ContentCalls
    from runyard.client.calls.imports import ImportCalls
    from runyard.client.calls.runs import RunCalls
    from runyard.client.calls.server import ServerCalls, UserCalls
    from runyard.client.calls.webservices import WebserviceCalls
    from runyard.client.calls.workspace import (
        AssetCalls,
        ComputeCalls,
        EnvironmentCalls,
        ExperimentCalls,
        WorkspaceCalls,
    )


class Client:
    """Shared between threads and forked children, like its transport. Calls are imported when they are first made."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @property
    def address(self) -> Address:
        return self.transport.address

    @cached_property
    def assets(self) -> AssetCalls:
        from runyard.client.calls.workspace import AssetCalls

        return AssetCalls(self.transport)

    @cached_property
    def compute(self) -> ComputeCalls:
        from runyard.client.calls.workspace import ComputeCalls

        return ComputeCalls(self.transport)

    @cached_property
    def content(self) -> ContentCalls:
        from runyard.client.calls.content import ContentCalls

        return ContentCalls(self.transport)

    @cached_property
    def environments(self) -> EnvironmentCalls:
        from runyard.client.calls.workspace import EnvironmentCalls

        return EnvironmentCalls(self.transport)

    @cached_property
    def experiments(self) -> ExperimentCalls:
        from runyard.client.calls.workspace import ExperimentCalls

        return ExperimentCalls(self.transport)

    @cached_property
    def imports(self) -> ImportCalls:
        from runyard.client.calls.imports import ImportCalls

        return ImportCalls(self.transport)

    @cached_property
    def runs(self) -> RunCalls:
        from runyard.client.calls.runs import RunCalls

        return RunCalls(self.transport)

    @cached_property
    def server(self) -> ServerCalls:
        from runyard.client.calls.server import ServerCalls

        return ServerCalls(self.transport)

    @cached_property
    def users(self) -> UserCalls:
        from runyard.client.calls.server import UserCalls

        return UserCalls(self.transport)

    @cached_property
    def webservices(self) -> WebserviceCalls:
        from runyard.client.calls.webservices import WebserviceCalls

        return WebserviceCalls(self.transport)

    @cached_property
    def workspaces(self) -> WorkspaceCalls:
        from runyard.client.calls.workspace import WorkspaceCalls

        return WorkspaceCalls(self.transport)
