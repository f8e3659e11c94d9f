"""The typed client: one attribute per resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from runyard.client.address import Address
from runyard.client.experiments import ExperimentCalls
from runyard.client.runs import RunCalls
from runyard.client.server import ServerCalls
from runyard.client.transport import Transport
from runyard.client.workspaces import WorkspaceCalls

if TYPE_CHECKING:
    from runyard.client.content import ContentCalls


class Client:
    """Shared between threads and forked children, like its transport."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.server = ServerCalls(transport)
        self.workspaces = WorkspaceCalls(transport)
        self.experiments = ExperimentCalls(transport)
        self.runs = RunCalls(transport)
        self._content: Optional[ContentCalls] = None

    @property
    def address(self) -> Address:
        return self.transport.address

    @property
    def content(self) -> ContentCalls:
        if self._content is None:
            # Processes that only read or ship never need it.
            from runyard.client.content import ContentCalls

            self._content = ContentCalls(self.transport)
        return self._content
