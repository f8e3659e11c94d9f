"""`@rawhttp` and its request, under the module names that scripts import them from."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence, Union

from runyard.serving.protocol import Json
from runyard.serving.worker.answers import AMLResponse
from runyard.serving.worker.requests import Headers, ScoringRequest, Values, read_form

RAW = "__runyard_rawhttp__"
_wants_raw = False


def rawhttp(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have `run` called with the request itself."""
    global _wants_raw
    _wants_raw = True
    return function


def is_raw() -> bool:
    """Whether the script used `@rawhttp`; like Azure's server, wherever it stands."""
    return _wants_raw


class AMLRequest:
    """An HTTP request with the members of Flask's that scripts use."""

    def __init__(self, request: ScoringRequest) -> None:
        self.method = request.method
        self.path = request.path
        self.query_string = request.query_string
        self.headers: Headers = request.headers()
        self.args = Values(request.query())
        self.data: bytes = request.body
        self._form: Optional[Values] = None
        self._files: Values = Values()
        self.host = str(self.headers.get("host", ""))

    @property
    def full_path(self) -> str:
        return f"{self.path}?{self.query_string.decode('latin-1')}"

    @property
    def url(self) -> str:
        query = self.query_string.decode("latin-1")
        return f"http://{self.host}{self.path}{'?' if query else ''}{query}"

    @property
    def base_url(self) -> str:
        return f"http://{self.host}{self.path}"

    @property
    def content_type(self) -> Optional[str]:
        found = self.headers.get("content-type")
        return str(found) if found is not None else None

    @property
    def mimetype(self) -> str:
        return (self.content_type or "").partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int:
        return len(self.data)

    @property
    def is_json(self) -> bool:
        return self.mimetype == "application/json" or self.mimetype.endswith("+json")

    @property
    def form(self) -> Values:
        self._read_form()
        return self._form or Values()

    @property
    def files(self) -> Values:
        self._read_form()
        return self._files

    @property
    def values(self) -> Values:
        return Values([*self.args.items(), *self.form.items()])

    @property
    def json(self) -> Any:
        return self.get_json()

    def get_json(self, force: bool = False, silent: bool = False, cache: bool = True) -> Any:
        """Return the body's value; None where it is not said to be JSON."""
        if not force and not self.is_json:
            return None
        try:
            return json.loads(self.data)
        except ValueError:
            if silent:
                return None
            raise

    def get_data(self, cache: bool = True, as_text: bool = False, parse_form_data: bool = False) -> Union[bytes, str]:
        return self.data.decode("utf-8") if as_text else self.data

    def _read_form(self) -> None:
        if self._form is None:
            fields, files = read_form(self.content_type or "", self.data)
            self._form, self._files = Values(fields), Values(files)


_REQUEST = {"AMLRequest": AMLRequest, "rawhttp": rawhttp}
_RESPONSE = {"AMLResponse": AMLResponse}
_MODULES: Dict[str, Json] = {
    "azureml.contrib.services": {},
    "azureml.contrib.services.aml_request": _REQUEST,
    "azureml.contrib.services.aml_response": _RESPONSE,
    "azureml_inference_server_http": {},
    "azureml_inference_server_http.api": {},
    "azureml_inference_server_http.api.aml_request": _REQUEST,
    "azureml_inference_server_http.api.aml_response": _RESPONSE,
}
_PARENTS = ("azureml", "azureml.contrib")  # where nothing else has them


class _Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Dict[str, Json]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name not in self._names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=not self._names[name])

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names[module.__name__])


def install_modules() -> None:
    """Let scripts import Azure's request and response; ours win over installed ones, whose server is not here."""
    sys.meta_path.insert(0, _Modules(_MODULES))
    sys.meta_path.append(_Modules({name: {} for name in _PARENTS}))
