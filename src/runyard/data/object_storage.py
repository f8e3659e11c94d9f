"""The storages `s3`, `azure` and `gcs`: buckets and containers, by obstore. An object appears whole or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from runyard.core.errors import InvalidArgument, NotFound, SystemFailure
from runyard.core.machine.files import atomic_write
from runyard.core.plugins import load_extra
from runyard.data.base import Count, Storage, StoredFile, count_nothing, counted

PART = 8 << 20
_PIECE = 1 << 20  # of a file that is sent in parts
AT_ONCE = 8  # files, and parts of one file

S3, AZURE, GCS = "s3", "azure", "gcs"
TYPES = (S3, AZURE, GCS)


class ObjectStorage(Storage):
    """`document`: type, bucket, prefix, options (names of obstore's own, without secrets), secret (whose value is JSON
    with the rest of the options); `read_secret` gives its value.
    """

    at_once = AT_ONCE

    def __init__(self, document: Mapping[str, Any], read_secret: Callable[[str], str]) -> None:
        self._document = document
        self._store = _open(document, read_secret)

    def iter_files(self, path: str = "") -> Iterator[StoredFile]:
        found = self.find_file(path) if path else None
        if found is not None:
            yield found
            return
        with self._explained(path or "/"):
            for page in _obstore().list(self._store, prefix=path or None):
                for one in sorted(page, key=lambda entry: str(entry["path"])):
                    if not path or str(one["path"]).startswith(f"{path}/"):
                        yield StoredFile(str(one["path"]), int(one["size"]))

    def find_file(self, name: str) -> Optional[StoredFile]:
        with self._explained(name):
            try:
                return StoredFile(name, int(_obstore().head(self._store, name)["size"]))
            except FileNotFoundError:
                return None

    def put_file(self, source: str, name: str, count: Count = count_nothing) -> None:
        """The service keeps it when all of it came: it knows the length, and on S3 the SHA-256."""
        with self._explained(name), open(source, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= PART:
                _obstore().put(self._store, name, file.read(), use_multipart=False)
                count(size)
            else:
                pieces = counted(iter(lambda: file.read(_PIECE), b""), count)
                _obstore().put(self._store, name, pieces, chunk_size=PART, max_concurrency=AT_ONCE)

    def fetch_file(self, name: str, target: str, count: Count = count_nothing) -> None:
        with atomic_write(target) as beside:
            with self._explained(name), open(beside, "xb") as out:
                answer = _obstore().get(self._store, name)
                due = int(answer.meta["size"])
                pieces = [answer.bytes()] if due <= PART else answer.stream(min_chunk_size=PART)
                came = sum(out.write(piece) for piece in counted(pieces, count))
            if came != due:
                raise SystemFailure(f"`{name}` came with {came} bytes; {due} were due.")

    def find_local(self, path: str) -> Optional[str]:
        return None

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Let what the service says reach the user in words."""
        try:
            yield
        except FileNotFoundError as error:
            raise NotFound(f"`{self._document.get('bucket')}` holds no object `{name}`.") from error
        except (OSError, ValueError, RuntimeError) as error:
            if isinstance(error, SystemFailure):
                raise
            raise _refused(self._document, name, error) from error
        except Exception as error:
            if type(error).__module__.startswith("obstore"):
                raise _refused(self._document, name, error) from error
            raise


def _refused(document: Mapping[str, Any], name: str, error: Exception) -> SystemFailure:
    first = str(error).strip().partition("\n")[0]
    return SystemFailure(
        f"The {document.get('type')} datastore `{document.get('bucket')}` could not be used for `{name}`.",
        why=first[:500],
        hint="Look at its name, region, endpoint and keys: register it again with overwrite=True.",
    )


def _open(document: Mapping[str, Any], read_secret: Callable[[str], str]) -> Any:
    import json

    options: Dict[str, Any] = dict(document.get("options") or {})
    if document.get("secret"):
        options.update(json.loads(read_secret(str(document["secret"]))))
    client: Dict[str, Any] = {"connect_timeout": "10s", "timeout": "300s"}
    if str(options.get("endpoint", "")).startswith("http://"):
        client["allow_http"] = True
    if document["type"] == S3:
        options.setdefault("checksum_algorithm", "SHA256")  # which the service compares with what it got
    stores = _obstore("store")
    made = {S3: stores.S3Store, AZURE: stores.AzureStore, GCS: stores.GCSStore}[str(document["type"])]
    try:
        return made(str(document["bucket"]), prefix=document.get("prefix") or None, client_options=client, **options)
    except (TypeError, ValueError, OSError) as error:
        raise InvalidArgument(f"The datastore `{document['bucket']}` cannot be opened.", why=str(error)) from error


def _obstore(part: str = "") -> Any:
    """Load obstore, or a part of it: only these datastores need it."""
    return load_extra(
        f"obstore.{part}" if part else "obstore",
        needs="Datastores on S3, Azure Blob and Google Cloud Storage need",
        hint="`pip install 'runyard[objects]'`, where you submit and where runs are.",
    )
