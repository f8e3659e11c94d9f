"""Open datasets, from a mirror on this machine or without any network."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

import pandas as pd
import pytest

from azureml.opendatasets import (
    MNIST,
    COVID19OpenResearch,
    Diabetes,
    NycTlcGreen,
    OjSalesSimulated,
    PublicHolidays,
    UsLaborCPI,
)
from runyard.sdk.data import opendatasets
from runyard.sdk.data.opendatasets import MNIST_FILES, VARIABLE
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.workspace import Workspace


def parquet(**columns: list[object]) -> bytes:
    out = io.BytesIO()
    pd.DataFrame(columns).to_parquet(out)
    return out.getvalue()


def green(*days: str) -> bytes:
    return parquet(lpepPickupDatetime=[datetime.fromisoformat(day) for day in days], fare=list(range(len(days))))


BLOBS = {
    "nyctlc/green/puYear=2016/puMonth=1/a.snappy.parquet": green("2016-01-30", "2016-01-31"),
    "nyctlc/green/puYear=2016/puMonth=2/a.snappy.parquet": green("2016-02-01", "2016-02-20"),
    "nyctlc/green/puYear=2017/puMonth=1/a.snappy.parquet": green("2017-01-01"),
    "laborstatisticscontainer/cpi/a.parquet": parquet(area=["US"], value=[1.5]),
    "holidaydatacontainer/Processed/a.parquet": parquet(
        countryOrRegion=["Norway", "Sweden"], countryRegionCode=["NO", "SE"], date=[datetime(2020, 5, 17)] * 2
    ),
    "ojsales-simulatedcontainer/oj_sales_data/Store1000_dominicks.csv": b"Store,Quantity\n1000,7\n",
    "ojsales-simulatedcontainer/oj_sales_data/Store1001_dominicks.csv": b"Store,Quantity\n1001,8\n",
    **{
        f"mnist/{name}": gzip.compress(
            bytes(16) + bytes([3] * 784) if "images" in name else bytes(8) + b"\x07", mtime=0
        )
        for name in MNIST_FILES
    },
}


class Mirror(BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - one per module is enough

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path).lstrip("/")
        query = parse_qs(parts.query)
        self.asked.append(path)
        if "comp" not in query:
            return self._answer(200 if path in BLOBS else 404, BLOBS.get(path, b""))
        prefix = f"{path}/{query.get('prefix', [''])[0]}"
        blobs = "".join(
            f"<Blob><Name>{name[len(path) + 1 :]}</Name>"
            f"<Properties><Content-Length>{len(body)}</Content-Length></Properties></Blob>"
            for name, body in BLOBS.items()
            if name.startswith(prefix)
        )
        return self._answer(
            200, f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>".encode()
        )

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Workspace:
    """One per test, which `from_config` finds: what one fetches is not there for the next."""
    monkeypatch.chdir(tmp_path)
    made = Workspace.create(f"o{abs(hash(request.node.name)) % 10**10}")
    made.write_config()
    return made


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv(VARIABLE, address)
    Mirror.asked.clear()
    yield address
    server.shutdown()
    server.server_close()


def test_mnist_says_where_its_files_belong_and_is_found_there(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "never")
    with pytest.raises(UserErrorException, match="target_path='opendatasets/mnist'"):
        MNIST.get_file_dataset()
    for name in MNIST_FILES:
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / name).write_text(name)
    workspace.get_default_datastore().upload(str(tmp_path / "files"), "opendatasets/mnist", show_progress=False)

    assert MNIST.get_file_dataset().to_path() == [f"/{name}" for name in MNIST_FILES]
    assert MNIST.get_file_dataset("test").to_path() == [f"/{name}" for name in list(MNIST_FILES)[2:]]


def test_mnist_is_fetched_once_and_checked(
    workspace: Workspace,
    mirror: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UserErrorException, match=r"could not be fetched[^§]*SHA-256"):
        MNIST.get_file_dataset()  # the mirror's files are not those of the world
    sums = {name: hashlib.sha256(BLOBS[f"mnist/{name}"]).hexdigest() for name in MNIST_FILES}
    monkeypatch.setattr(opendatasets, "MNIST_FILES", sums)
    found = MNIST.get_file_dataset()
    asked = len(Mirror.asked)
    MNIST.get_file_dataset()

    sizes = [len(gzip.decompress(Path(path).read_bytes())) for path in found.download(str(tmp_path / "got"))]
    assert sizes == [800, 9, 800, 9] and len(Mirror.asked) == asked
    frame = MNIST.get_tabular_dataset().to_pandas_dataframe()
    assert (frame.shape, list(frame.iloc[1])) == ((2, 785), [3] * 784 + [7])
    assert "Fetching train-images-idx3-ubyte.gz: 0.0 MB of 0.0 MB." in capsys.readouterr().err


def test_only_the_months_that_are_asked_for_are_fetched(
    workspace: Workspace, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    span = datetime(2016, 1, 31), datetime(2016, 2, 10)
    frame = NycTlcGreen(*span, cols=["lpepPickupDatetime"]).to_pandas_dataframe()

    assert frame["lpepPickupDatetime"].tolist() == [datetime(2016, 1, 31), datetime(2016, 2, 1)]
    assert not [path for path in Mirror.asked if "2017" in path]
    Mirror.asked.clear()
    monkeypatch.setenv(VARIABLE, "never")
    assert len(NycTlcGreen.get_tabular_dataset(*span).to_pandas_dataframe()) == 2 and Mirror.asked == []
    with pytest.raises(UserErrorException, match="target_path='opendatasets/nyctlcgreen'"):
        NycTlcGreen.get_file_dataset(datetime(2018, 1, 1))


def test_other_tables_and_files_are_fetched(workspace: Workspace, mirror: str, tmp_path: Path) -> None:
    assert UsLaborCPI().to_pandas_dataframe().to_dict("list") == {"area": ["US"], "value": [1.5]}
    assert PublicHolidays("Norway").to_pandas_dataframe()["countryRegionCode"].tolist() == ["NO"]
    [path] = OjSalesSimulated.get_file_dataset().take(1).download(str(tmp_path / "oj"))
    assert Path(path).name == "Store1000_dominicks.csv"
    assert OjSalesSimulated.get_tabular_dataset().to_pandas_dataframe()["Quantity"].tolist() == [7, 8]
    with pytest.raises(UserErrorException, match=r"github\.com/allenai/cord19"):
        COVID19OpenResearch()


@pytest.mark.long
def test_diabetes_comes_out_of_scikit_learn(workspace: Workspace) -> None:
    frame = Diabetes.get_tabular_dataset().to_pandas_dataframe()

    assert list(frame.columns) == ["AGE", "SEX", "BMI", "BP", "S1", "S2", "S3", "S4", "S5", "S6", "Y"]
    assert (len(frame), frame["AGE"][0], frame["Y"][0]) == (442, 59.0, 151.0)
