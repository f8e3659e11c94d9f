"""The typed client: one attribute per resource."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from runyard.client.address import Address
from runyard.client.transport import Transport

if TYPE_CHECKING:
    from runyard.client.assets import AssetCalls
    from runyard.client.compute import ComputeCalls
    from runyard.client.content import ContentCalls
    from runyard.client.environments import EnvironmentCalls
    from runyard.client.experiments import ExperimentCalls
    from runyard.client.runs import RunCalls
    from runyard.client.server import ServerCalls
    from runyard.client.users import UserCalls
    from runyard.client.workspaces import WorkspaceCalls


class Client:
    """Shared between threads and forked children, like its transport. Calls are imported when they are first made."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @property
    def address(self) -> Address:
        return self.transport.address

    @cached_property
    def assets(self) -> AssetCalls:
        from runyard.client.assets import AssetCalls

        return AssetCalls(self.transport)

    @cached_property
    def compute(self) -> ComputeCalls:
        from runyard.client.compute import ComputeCalls

        return ComputeCalls(self.transport)

    @cached_property
    def content(self) -> ContentCalls:
        from runyard.client.content import ContentCalls

        return ContentCalls(self.transport)

    @cached_property
    def environments(self) -> EnvironmentCalls:
        from runyard.client.environments import EnvironmentCalls

        return EnvironmentCalls(self.transport)

    @cached_property
    def experiments(self) -> ExperimentCalls:
        from runyard.client.experiments import ExperimentCalls

        return ExperimentCalls(self.transport)

    @cached_property
    def runs(self) -> RunCalls:
        from runyard.client.runs import RunCalls

        return RunCalls(self.transport)

    @cached_property
    def server(self) -> ServerCalls:
        from runyard.client.server import ServerCalls

        return ServerCalls(self.transport)

    @cached_property
    def users(self) -> UserCalls:
        from runyard.client.users import UserCalls

        return UserCalls(self.transport)

    @cached_property
    def workspaces(self) -> WorkspaceCalls:
        from runyard.client.workspaces import WorkspaceCalls

        return WorkspaceCalls(self.transport)
