"""What goes wrong in the pages of a browser's context: errors, dialogs, requests that leave the server."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, WebError


class Watch:
    def __init__(self, origin: str) -> None:
        self.faults: list[str] = []
        self._origin = origin
        self._allowed = ["/favicon.ico"]  # asked for beside documents that are no pages, such as JSON

    def allow(self, part: str) -> None:
        """Have messages that hold `part` be no fault, those so far included."""
        self._allowed.append(part)
        self.faults = [fault for fault in self.faults if part not in fault]

    def attach(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("request", self._on_request)
        context.on("page", self._on_page)

    def _on_page(self, page: Page) -> None:
        page.on("dialog", self._on_dialog)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(f"console: {message.text} ({message.location.get('url')})")

    def _on_error(self, error: WebError) -> None:
        self._note(f"exception: {error.error}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self._note(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self._origin:
            self._note(f"request elsewhere: {request.url}")

    def _note(self, fault: str) -> None:
        if not any(part in fault for part in self._allowed):
            self.faults.append(fault)
