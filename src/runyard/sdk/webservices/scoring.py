"""One request to a service, as `service.run()` sends it."""

from __future__ import annotations

import http.client
import json
import ssl
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple, Union
from urllib.parse import urlsplit

from runyard.sdk.exceptions import WebserviceException

if TYPE_CHECKING:
    from runyard.client.address import Address

ANSWER_S = 900.0  # a first request may wait for a start, and a script may compute long
JSON_TYPE = "application/json"


class ScoringAnswer(NamedTuple):
    status: int
    headers: List[Tuple[str, str]]
    body: bytes

    def value(self) -> Any:
        """Return the JSON value; of an answer that is no JSON the bytes."""
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body


def body_of(input_data: Any) -> bytes:
    """Return the body of a request: text and bytes as they are.

    Raises:
        WebserviceException: it is neither.
    """
    if isinstance(input_data, str):
        return input_data.encode("utf-8")
    if isinstance(input_data, (bytes, bytearray, memoryview)):
        return bytes(input_data)
    if hasattr(input_data, "read"):
        return body_of(input_data.read())
    raise WebserviceException(
        f"run() takes the body of a request as text or bytes, found a {type(input_data).__name__}. "
        "For a Python value: service.run(json.dumps({'data': value}))."
    )


def send(url: str, body: bytes, *, key: Optional[str], server: Address) -> ScoringAnswer:
    """Send a body and return the answer, whatever its status.

    Raises:
        WebserviceException: nobody answers there.
    """
    parts = urlsplit(url)
    headers: Dict[str, str] = {"Content-Type": JSON_TYPE}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    connection = _connection(parts.scheme, str(parts.hostname), parts.port, server)
    try:
        connection.request("POST", parts.path or "/", body, headers)
        answer = connection.getresponse()
        return ScoringAnswer(answer.status, answer.getheaders(), answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise WebserviceException(f"The service does not answer at {url}: {error or type(error).__name__}.") from error
    finally:
        connection.close()


def failed_answer(answer: ScoringAnswer, name: str) -> WebserviceException:
    """Return the error of an answer that is not 200."""
    text = answer.body.decode("utf-8", "replace")
    return WebserviceException(
        f"Received bad response from service `{name}`. More information can be found by calling `.get_logs()` on the "
        f"webservice object.\nResponse Code: {answer.status}\nHeaders: {dict(answer.headers)}\nContent: {text}",
        status_code=answer.status,
    )


def _connection(
    scheme: str, host: str, port: Optional[int], server: Address
) -> Union[http.client.HTTPConnection, http.client.HTTPSConnection]:
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=ANSWER_S)
    if not server.fingerprint:
        return http.client.HTTPSConnection(host, port, timeout=ANSWER_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=ANSWER_S, context=context)
    connection.connect()
    shown = connection.sock.getpeercert(binary_form=True) or b"" if connection.sock is not None else b""
    if sha256(shown).hexdigest() != server.fingerprint:
        connection.close()
        raise WebserviceException(
            f"The service at {host}:{port} shows another certificate than the server of this workspace."
        )
    return connection
