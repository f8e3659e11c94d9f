"""The typed client: one attribute per resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from runyard.client.address import Address
from runyard.client.assets import AssetCalls
from runyard.client.experiments import ExperimentCalls
from runyard.client.runs import RunCalls
from runyard.client.server import ServerCalls
from runyard.client.transport import Transport
from runyard.client.workspaces import WorkspaceCalls

if TYPE_CHECKING:
    from runyard.client.compute import ComputeCalls
    from runyard.client.content import ContentCalls
    from runyard.client.environments import EnvironmentCalls
    from runyard.client.users import UserCalls


class Client:
    """Shared between threads and forked children, like its transport."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.server = ServerCalls(transport)
        self.workspaces = WorkspaceCalls(transport)
        self.experiments = ExperimentCalls(transport)
        self.assets = AssetCalls(transport)
        self.runs = RunCalls(transport)
        self._compute: Optional[ComputeCalls] = None
        self._content: Optional[ContentCalls] = None
        self._environments: Optional[EnvironmentCalls] = None
        self._users: Optional[UserCalls] = None

    @property
    def address(self) -> Address:
        return self.transport.address

    @property
    def compute(self) -> ComputeCalls:
        if self._compute is None:
            # Runs on `local` never need it.
            from runyard.client.compute import ComputeCalls

            self._compute = ComputeCalls(self.transport)
        return self._compute

    @property
    def content(self) -> ContentCalls:
        if self._content is None:
            # Processes that only read or ship never need it.
            from runyard.client.content import ContentCalls

            self._content = ContentCalls(self.transport)
        return self._content

    @property
    def environments(self) -> EnvironmentCalls:
        if self._environments is None:
            # Only people ask what is built.
            from runyard.client.environments import EnvironmentCalls

            self._environments = EnvironmentCalls(self.transport)
        return self._environments

    @property
    def users(self) -> UserCalls:
        if self._users is None:
            # Only admins ask, and `runyard login`.
            from runyard.client.users import UserCalls

            self._users = UserCalls(self.transport)
        return self._users
