"""Open datasets that Azure's samples use: fetched once from where they are public, into the workspace's datastore.

`RUNYARD_OPENDATASETS` names a mirror with the same containers, or is `never`. Where nothing can be fetched, the error
says which files belong where. Diabetes comes out of scikit-learn where that is installed.
"""

from __future__ import annotations

import os
import re
import tempfile
from datetime import datetime, timezone
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, List, NoReturn, Optional, Sequence, Tuple

from runyard.core.errors import NotFound, RunyardError
from runyard.data.datasets import compile_pattern
from runyard.data.transfer import for_all
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts
from runyard.sdk.data.conditions import ColumnCondition
from runyard.sdk.data.dataset import FileDatasetFactory, TabularDatasetFactory
from runyard.sdk.data.datastore_files import say
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.errors import translates
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.workspace import Workspace

if TYPE_CHECKING:
    from runyard.sdk.data.datastore import Datastore

PLACE = "opendatasets"
VARIABLE = "RUNYARD_OPENDATASETS"
AZURE = "https://azureopendatastorage.blob.core.windows.net"
PANDEMIC = "https://pandemicdatalake.blob.core.windows.net/public/curated/covid-19"
MNIST_MIRRORS = (
    f"{AZURE}/mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
MNIST_FILES = {  # with the SHA-256 of each, the same at all mirrors
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_COLUMNS = ("AGE", "SEX", "BMI", "BP", "S1", "S2", "S3", "S4", "S5", "S6")
_AT_ONCE = 4
_YEAR = re.compile(r"year=(\d{4})(?:/|$)", re.IGNORECASE)
_MONTH = re.compile(r"month=(\d{1,2})(?:/|$)", re.IGNORECASE)
Month = Tuple[int, int]


class MNIST(AzureClass):
    """The four files of handwritten digits."""

    @staticmethod
    @translates
    def get_file_dataset(dataset_filter: str = "all", enable_telemetry: bool = True) -> FileDataset:
        """Return the files; `dataset_filter` may be `train` or `test`.

        Raises:
            UserErrorException: they are not on the datastore and cannot be fetched; says where they belong.
        """
        wanted = [name for name in MNIST_FILES if dataset_filter == "all" or _part(name) == dataset_filter]
        if not wanted:
            raise UserErrorException(f"dataset_filter is all, train or test, found {dataset_filter!r}.")
        datastore = Workspace.from_config().get_default_datastore()
        place = f"{PLACE}/mnist"
        storage = datastore._storage()
        for name in wanted:
            if storage.find_file(f"{place}/{name}") is None:
                _fetch_one(
                    datastore, f"{place}/{name}", [f"{root}/{name}" for root in MNIST_MIRRORS], MNIST_FILES[name]
                )
        return FileDatasetFactory.from_files([(datastore, f"{place}/{name}") for name in wanted])

    @staticmethod
    @translates
    def get_tabular_dataset(dataset_filter: str = "all", enable_telemetry: bool = True) -> TabularDataset:
        """Return a row per picture: its 784 pixels, `0` to `783`, and its `label`. Needs pandas and pyarrow."""
        files = MNIST.get_file_dataset(dataset_filter)
        datastore = Workspace.from_config().get_default_datastore()
        name = f"{PLACE}/mnist-table/{dataset_filter}.parquet"
        if datastore._storage().find_file(name) is None:
            with tempfile.TemporaryDirectory(prefix="runyard-mnist-") as scratch:
                path = os.path.join(scratch, os.path.basename(name))
                _mnist_frame(files.download(scratch)).to_parquet(path)
                datastore.upload_files([path], target_path=os.path.dirname(name), show_progress=False)
        return TabularDatasetFactory.from_parquet_files((datastore, name))


class Diabetes(AzureClass):
    """The diabetes data under the names that Azure's samples know: AGE … S6 and the target Y."""

    @staticmethod
    @translates
    def get_tabular_dataset(enable_telemetry: bool = True) -> TabularDataset:
        """Raises UserErrorException: scikit-learn or pandas is not installed here, and nothing can be fetched."""
        datastore = Workspace.from_config().get_default_datastore()
        place = f"{PLACE}/diabetes"
        if next(datastore._storage().iter_files(place), None) is None:
            frame = _diabetes_frame()
            if frame is None:
                _fetch_folder(datastore, place, f"{AZURE}/mlsamples/diabetes", "*.parquet", None)
            else:
                with tempfile.TemporaryDirectory(prefix="runyard-diabetes-") as scratch:
                    path = os.path.join(scratch, "diabetes.parquet")
                    frame.to_parquet(path)
                    datastore.upload_files([path], target_path=place, overwrite=True, show_progress=False)
        return TabularDatasetFactory.from_parquet_files((datastore, f"{place}/*.parquet"))


class OpenDataset(AzureClass):
    """A dataset in Parquet files, in folders of years and months where it has many.

    Args:
        start_date: only what is not older; the files of other months are not fetched. `end_date` alike.
        cols: only these columns.
    """

    _folder: ClassVar[str] = ""  # its address
    _pattern: ClassVar[str] = "**/*.parquet"
    _time: ClassVar[str] = ""  # the column that start_date and end_date are about

    def __init__(
        self,
        start_date: Optional[datetime] = None,
        end_date: Optional[datetime] = None,
        cols: Optional[Sequence[str]] = None,
        enable_telemetry: bool = True,
    ) -> None:
        for name, value in (("start_date", start_date), ("end_date", end_date)):
            if value is not None and not hasattr(value, "isoformat"):
                raise UserErrorException(f"{name} must be a datetime, found {value!r:.100}.")
        if cols is not None and (isinstance(cols, str) or not hasattr(cols, "__iter__")):
            raise UserErrorException(f"cols must be a list of columns, found {cols!r:.100}.")
        self._span = (start_date, end_date)
        self._cols = cols

    def to_pandas_dataframe(self) -> Any:
        return self.get_tabular_dataset(*self._span, self._cols).to_pandas_dataframe()

    @classmethod
    @translates
    def get_file_dataset(
        cls, start_date: Optional[datetime] = None, end_date: Optional[datetime] = None, enable_telemetry: bool = True
    ) -> FileDataset:
        """Return the files of the months from `start_date` to `end_date`, fetched once.

        Raises:
            UserErrorException: they are not on the datastore and cannot be fetched; says where they belong.
        """
        datastore = Workspace.from_config().get_default_datastore()
        names = _fetch_folder(datastore, cls._place(), cls._folder, cls._pattern, (start_date, end_date))
        return FileDatasetFactory.from_files([(datastore, name) for name in names], validate=False)

    @classmethod
    @translates
    def get_tabular_dataset(
        cls,
        start_date: Optional[datetime] = None,
        end_date: Optional[datetime] = None,
        cols: Optional[Sequence[str]] = None,
        enable_telemetry: bool = True,
    ) -> TabularDataset:
        """Return the rows from `start_date` to `end_date`; the files of those months are fetched once."""
        files = cls.get_file_dataset(start_date, end_date)
        table = TabularDataset._new(files._workspace, files._spec.sources, {"format": "parquet"})
        if cls._time:
            table = table.with_timestamp_columns(cls._time)
            if start_date is not None:
                table = table.time_after(start_date, validate=False)
            if end_date is not None:
                table = table.time_before(end_date, validate=False)
        return table.keep_columns(list(cols)) if cols else table

    @classmethod
    def _place(cls) -> str:
        return f"{PLACE}/{cls.__name__.lower()}"


def _of_azure(name: str, path: str, time: str = "", *, root: str = AZURE) -> Any:
    made = type(name, (OpenDataset,), {"_folder": f"{root}/{path}", "_time": time, "__module__": __name__})
    made.__doc__ = f"{root}/{path}"
    return made


NycTlcGreen = _of_azure("NycTlcGreen", "nyctlc/green", "lpepPickupDatetime")
NycTlcYellow = _of_azure("NycTlcYellow", "nyctlc/yellow", "tpepPickupDateTime")
NycTlcFhv = _of_azure("NycTlcFhv", "nyctlc/fhv", "pickupDateTime")
NoaaIsdWeather = _of_azure("NoaaIsdWeather", "isdweatherdatacontainer/ISDWeather", "datetime")
NoaaGfsWeather = _of_azure("NoaaGfsWeather", "gfsweatherdatacontainer/GFSWeather/GFSProcessed", "currentDatetime")
BostonSafety = _of_azure("BostonSafety", "citydatacontainer/Safety/Release/city=Boston", "dateTime")
ChicagoSafety = _of_azure("ChicagoSafety", "citydatacontainer/Safety/Release/city=Chicago", "dateTime")
NycSafety = _of_azure("NycSafety", "citydatacontainer/Safety/Release/city=NewYorkCity", "dateTime")
SanFranciscoSafety = _of_azure("SanFranciscoSafety", "citydatacontainer/Safety/Release/city=SanFrancisco", "dateTime")
SeattleSafety = _of_azure("SeattleSafety", "citydatacontainer/Safety/Release/city=Seattle", "dateTime")
UsPopulationCounty = _of_azure("UsPopulationCounty", "censusdatacontainer/release/us_population_county")
UsPopulationZip = _of_azure("UsPopulationZip", "censusdatacontainer/release/us_population_zip")
UsLaborCPI = _of_azure("UsLaborCPI", "laborstatisticscontainer/cpi")
UsLaborEHENational = _of_azure("UsLaborEHENational", "laborstatisticscontainer/ehe_national")
UsLaborEHEState = _of_azure("UsLaborEHEState", "laborstatisticscontainer/ehe_state")
UsLaborLAUS = _of_azure("UsLaborLAUS", "laborstatisticscontainer/laus")
UsLaborLFS = _of_azure("UsLaborLFS", "laborstatisticscontainer/lfs")
UsLaborPPICommodity = _of_azure("UsLaborPPICommodity", "laborstatisticscontainer/ppi_commodity")
UsLaborPPIIndustry = _of_azure("UsLaborPPIIndustry", "laborstatisticscontainer/ppi_industry")
BingCOVID19Data = _of_azure("BingCOVID19Data", "bing_covid-19_data/latest", "updated", root=PANDEMIC)
COVIDTrackingProject = _of_azure("COVIDTrackingProject", "covid_tracking/latest", "date", root=PANDEMIC)
EcdcCOVIDCases = _of_azure("EcdcCOVIDCases", "ecdc_cases/latest", "date_rep", root=PANDEMIC)


class PublicHolidays(OpenDataset):
    """Public holidays of 38 countries from 1970 to 2099."""

    _folder = f"{AZURE}/holidaydatacontainer/Processed"
    _time = "date"

    def __init__(self, country_or_region: str = "", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_texts(country_or_region=country_or_region)
        self._country = country_or_region

    def to_pandas_dataframe(self) -> Any:
        table = self.get_tabular_dataset(*self._span, self._cols)
        if self._country:
            code, name = ColumnCondition("countryRegionCode"), ColumnCondition("countryOrRegion")
            table = table.filter((code == self._country.upper()) | (name == self._country))
        return table.to_pandas_dataframe()


PublicHolidaysOffline = PublicHolidays


class OjSalesSimulated(AzureClass):
    """Simulated sales of orange juice: 11,973 CSV files, which are read from the web as they are asked for."""

    @staticmethod
    @translates
    def get_file_dataset(enable_telemetry: bool = True) -> FileDataset:
        return FileDatasetFactory.from_files(_at(f"{AZURE}/ojsales-simulatedcontainer/oj_sales_data/*.csv"), False)

    @staticmethod
    @translates
    def get_tabular_dataset(enable_telemetry: bool = True) -> TabularDataset:
        address = _at(f"{AZURE}/ojsales-simulatedcontainer/oj_sales_data/*.csv")
        return TabularDatasetFactory.from_delimited_files(address, False)


class COVID19OpenResearch(AzureClass):
    """Refused: it is a collection of archives, which its makers give out."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.get_file_dataset()

    @staticmethod
    def get_file_dataset(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise UserErrorException(
            "COVID19OpenResearch is not fetched: it is a collection of large archives.\n"
            "The Allen Institute for AI gives it out as CORD-19: https://github.com/allenai/cord19"
        )

    get_tabular_dataset = get_file_dataset


def _at(address: str) -> str:
    """Return the address at the mirror that `RUNYARD_OPENDATASETS` names, where it names one."""
    mirror = os.environ.get(VARIABLE, "").rstrip("/")
    if mirror == "never":
        raise UserErrorException(f"{VARIABLE}=never: nothing is fetched.")
    return f"{mirror}/{address.split('/', 3)[3]}" if mirror else address


def _fetch_one(datastore: Datastore, target: str, addresses: Sequence[str], sha256: str = "") -> None:
    """Put a file on the datastore, from the first address that gives the right one."""
    from runyard.data.web import fetch

    folder, _, name = target.rpartition("/")
    failure: Optional[BaseException] = None
    with tempfile.TemporaryDirectory(prefix="runyard-opendatasets-") as scratch:
        path = os.path.join(scratch, name)
        for address in addresses:
            try:
                fetch(_at(address), path, sha256=sha256, progress=_FetchProgress(name))
            except (RunyardError, UserErrorException) as error:
                failure = failure or error
                continue
            datastore.upload_files([path], target_path=folder, overwrite=True, show_progress=False)
            return
    raise _offline(target, addresses[0], failure) from failure


class _FetchProgress:
    """Says on stderr how far a file has come, at each tenth."""

    def __init__(self, name: str) -> None:
        self._name, self._say, self._tenth = name, say, -1

    def __call__(self, came: int, due: Optional[int]) -> None:
        tenth = came * 10 // due if due else came >> 26
        if tenth > self._tenth:
            self._tenth = tenth
            self._say(f"Fetching {self._name}: {came / 1e6:.1f} MB{f' of {due / 1e6:.1f} MB' if due else ''}.")


Span = Optional[Tuple[Optional[datetime], Optional[datetime]]]


def _fetch_folder(datastore: Datastore, place: str, folder: str, pattern: str, span: Span) -> List[str]:
    """Put the files below an address on the datastore, of those months; return their names there.

    Files that are there stay. Without a network, what is there is taken.
    """
    from runyard.data.web import list_addresses

    there = {file.name[len(place) + 1 :]: file.size for file in datastore._storage().iter_files(place)}
    fitting = compile_pattern(pattern)
    try:
        listed = {file.name: file for file in list_addresses(_at(f"{folder}/{pattern}"))}
    except (RunyardError, UserErrorException) as error:
        kept = sorted(name for name in there if fitting.fullmatch(name) and _is_within(name, span))
        if not kept:
            raise _offline(f"{place}/", folder, error) from error
        return [f"{place}/{name}" for name in kept]
    wanted = sorted(name for name in listed if _is_within(name, span))
    if not wanted:
        raise NotFound(f"There is nothing of that time at {folder}.", why=f"Its first file is {min(listed)}.")
    missing = [name for name in wanted if there.get(name) != listed[name].size]
    if missing:
        total = sum(listed[name].size for name in missing)
        say(f"Fetching {len(missing)} files, {total / 1e6:.1f} MB, from {folder}.")
    for_all(lambda name: _fetch_one(datastore, f"{place}/{name}", [listed[name].url]), missing, _AT_ONCE)
    return [f"{place}/{name}" for name in wanted]


def _is_within(name: str, span: Span) -> bool:
    """Whether the month that a path names is one of the span's; a path that names none always is."""
    year, month = _YEAR.search(name), _MONTH.search(name)
    if span is None or year is None:
        return True
    first, last = (None if moment is None else _month(moment) for moment in span)
    begin = (int(year[1]), int(month[1]) if month else 1)
    end = (int(year[1]), int(month[1]) if month else 12)
    return (first is None or end >= first) and (last is None or begin <= last)


def _month(moment: datetime) -> Month:
    utc = moment.astimezone(timezone.utc) if moment.tzinfo is not None else moment
    return utc.year, utc.month


def _offline(target: str, address: str, failure: Optional[BaseException]) -> UserErrorException:
    folder, _, name = target.rpartition("/")
    why = str(getattr(failure, "why", "") or failure or "").strip().partition("\n")[0]
    return UserErrorException(
        f"{name or 'The dataset'} is not on this workspace's datastore, and could not be fetched from {address}:\n"
        f"{why}\n"
        f"Where there is a network, get it from there, then:\n"
        f"ws.get_default_datastore().upload('./folder-with-it', target_path='{folder}')\n"
        f"{VARIABLE} names a mirror of your own."
    )


def _mnist_frame(paths: Sequence[str]) -> Any:
    """Return the pictures of files of images, each followed by that of their labels."""
    import gzip

    pandas, numpy = import_module("pandas"), import_module("numpy")
    frames = []
    for images, labels in zip(paths[::2], paths[1::2]):
        with gzip.open(images) as file, gzip.open(labels) as other:
            pixels = numpy.frombuffer(file.read()[16:], dtype="uint8").reshape(-1, 784)  # after 4 numbers of 4 bytes
            frame = pandas.DataFrame(pixels, columns=[str(index) for index in range(784)])
            frames.append(frame.assign(label=numpy.frombuffer(other.read()[8:], dtype="uint8")))
    return pandas.concat(frames, ignore_index=True)


def _part(name: str) -> str:
    return "test" if name.startswith("t10k") else "train"


def _diabetes_frame() -> Any:
    """Return the data out of scikit-learn; None where that, or pandas, is not installed."""
    try:
        pandas, sklearn = import_module("pandas"), import_module("sklearn.datasets")
    except ImportError:
        return None
    found = sklearn.load_diabetes(scaled=False)
    return pandas.DataFrame(found.data, columns=list(_COLUMNS)).assign(Y=found.target)
