"""Turn the data of a configuration into the references that travel with the run, and into the arguments for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Tuple

from runyard.core.errors import SubmitRejected
from runyard.core.specs import DIRECT, DataReferenceSpec, DatasetInputSpec, DatasetOutputSpec, RunSpec
from runyard.data.folder import clean_data_path
from runyard.data.references import PREFIX
from runyard.sdk.data.abstract_dataset import invented_name
from runyard.sdk.data.datastore import Datastore
from runyard.sdk.data.inputs import (
    DataReference,
    DatasetConsumptionConfig,
    checked_mode,
    reference_name,
)
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration, RunConfiguration

if TYPE_CHECKING:
    from runyard.sdk.data.outputs import OutputDatasetConfig

_NAMED = re.compile(rf"\$\{{?{PREFIX}(\w+)", re.ASCII)

References = Dict[str, DataReferenceSpec]


class DataPlan:
    """What a run's data is, by name."""

    def __init__(self) -> None:
        self.references: References = {}
        self.datasets: Dict[str, DatasetInputSpec] = {}
        self.outputs: Dict[str, DatasetOutputSpec] = {}
        self.written: List[OutputDatasetConfig] = []  # the objects of the outputs: later runs may read them


def datastores_of(spec: RunSpec) -> List[str]:
    """Return the datastores that a run's data lies on."""
    used = {reference.datastore for reference in spec.data_references.values()}
    used.update(output.datastore for output in spec.outputs.values())
    used.update(source.datastore for given in spec.datasets.values() for source in given.dataset.sources)
    return sorted(used - {""})


def plan_data(settings: RunConfiguration) -> Tuple[Any, Any, DataPlan]:
    """Return the arguments and the command with data among them as texts, and all data by name.

    Raises:
        UserErrorException: data that cannot be, or two under one name.
        SubmitRejected: an argument names a reference that is not there.
    """
    found = DataPlan()
    _add_configured(found.references, settings.data_references)
    _taken(found, settings._inputs)
    _add_inputs(found, _by_name(settings.data, "data"))
    _add_outputs(found, _by_name(settings.output_data, "output_data"))
    arguments, command = _taken(found, settings.arguments), _taken(found, settings.command)
    _check_named([*_texts(arguments), *_texts(command)], {**found.references, **found.datasets, **found.outputs})
    return arguments, command, found


def as_reference(value: Any) -> Any:
    """Return the DataReference that `value` is, or means as a datastore: a mount of all of it. Else None."""
    if isinstance(value, Datastore):
        return value.as_mount()
    return value if isinstance(value, DataReference) else None


def is_dataset(value: Any) -> bool:
    return isinstance(value, (DatasetConsumptionConfig, FileDataset, TabularDataset))


def references_plain(references: Mapping[str, DataReferenceSpec]) -> Dict[str, Any]:
    """Return them as Azure's run definitions hold them."""
    return {
        name: DataReferenceConfiguration(
            spec.datastore, spec.mode, spec.path or None, spec.path_on_compute, spec.overwrite
        ).to_plain()
        for name, spec in references.items()
    }


def data_plain(datasets: Mapping[str, DatasetInputSpec]) -> Dict[str, Any]:
    """Return the datasets as Azure's run definitions hold them."""
    return {
        name: {
            "dataLocation": {
                "dataset": {"id": given.dataset.id, "name": given.name or None, "version": given.version or None}
            },
            "mechanism": given.mode,
            "environmentVariableName": name,
            "pathOnCompute": given.path_on_compute,
        }
        for name, given in datasets.items()
    }


def outputs_plain(outputs: Mapping[str, DatasetOutputSpec]) -> Dict[str, Any]:
    return {
        name: {
            "outputLocation": {"dataPath": {"datastoreName": given.datastore, "relativePath": given.path}},
            "mechanism": given.mode,
        }
        for name, given in outputs.items()
    }


def _taken(found: DataPlan, given: Any) -> Any:
    return [_take(found, one) for one in given] if isinstance(given, (list, tuple)) else given


def _texts(given: Any) -> List[str]:
    parts = given if isinstance(given, list) else [given]
    return [part for part in parts if isinstance(part, str)]


def _take(found: DataPlan, value: Any) -> Any:
    """Return `value`, or the text that stands for it when it is data, which is then added to `found`."""
    if isinstance(value, FileDataset):
        value = value.as_mount()
    elif isinstance(value, TabularDataset):
        value = value.as_named_input(invented_name())
    if isinstance(value, DatasetConsumptionConfig):
        _add_once(found, found.datasets, value.name, value._spec())
        return value._given().id if value.mode == DIRECT else f"${PREFIX}{value.name}"
    if _is_output(value):
        _add_once(found, found.outputs, value.name, value._spec())
        found.written.append(value)
        return f"${PREFIX}{value.name}"
    reference = as_reference(value)
    if reference is None:
        return value
    _add(found.references, reference.data_reference_name, reference.to_config())
    return str(reference)


def _by_name(given: Any, setting: str) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    raise UserErrorException(f"run_config.{setting} must be a dict by name, found {type(given).__name__}.")


def _add_inputs(found: DataPlan, given: Mapping[str, Any]) -> None:
    """Raises UserErrorException: one is no dataset and no data reference."""
    for name, value in given.items():
        if isinstance(value, (FileDataset, TabularDataset)):
            named = value.as_named_input(name)
            _take(found, named.as_mount() if isinstance(value, FileDataset) else named)
        elif is_dataset(value) or as_reference(value) is not None:
            _take(found, value)
        else:
            raise UserErrorException(
                f"run_config.data[{name!r}] is a {type(value).__name__}; it takes datasets and data references.\n"
                "Write it as {'data': dataset.as_named_input('data').as_mount()}."
            )


def _add_outputs(found: DataPlan, given: Mapping[str, Any]) -> None:
    """Raises UserErrorException: one is no output."""
    for name, value in given.items():
        if not _is_output(value):
            raise UserErrorException(
                f"run_config.output_data[{name!r}] is a {type(value).__name__}; it takes an OutputFileDatasetConfig."
            )
        _take(found, value)


def _is_output(value: Any) -> bool:
    return hasattr(type(value), "_written_dataset")  # its module is loaded by those who have one


def _add_once(found: DataPlan, into: Dict[str, Any], name: str, spec: Any) -> None:
    """Two that are the same are one; two of a name that differ are a mistake."""
    others = [named for named in (found.references, found.datasets, found.outputs) if named is not into]
    if into.setdefault(name, spec) != spec or any(name in named for named in others):
        raise UserErrorException(
            f"Two different inputs or outputs of this run are called {name!r}. Rename one of them."
        )


def _add_configured(found: References, configured: Any) -> None:
    if not isinstance(configured, Mapping):
        raise UserErrorException(
            f"run_config.data_references must be a dict, found {type(configured).__name__}.\n"
            "Write it as {reference.data_reference_name: reference.to_config()}."
        )
    for name, value in configured.items():
        reference = as_reference(value)
        config = value if reference is None else reference.to_config()
        if not isinstance(config, DataReferenceConfiguration):
            config = _read(name, config)
        _add(found, name, config)


def _read(name: str, value: Any) -> DataReferenceConfiguration:
    """Return what a `.runconfig` file says about a reference."""
    if isinstance(value, Mapping):
        config = DataReferenceConfiguration()
        config.read_plain(value, f"dataReferences.{name}")
        return config
    raise UserErrorException(
        f"run_config.data_references[{name!r}] is a {type(value).__name__}; "
        "it takes a DataReferenceConfiguration, such as reference.to_config() gives."
    )


def _add(found: References, name: str, config: DataReferenceConfiguration) -> None:
    if not isinstance(config.data_store_name, str) or not config.data_store_name:
        raise UserErrorException(f"The data reference {name!r} names no datastore (datastore_name).")
    spec = DataReferenceSpec(
        datastore=str(config.data_store_name),
        path=clean_data_path(config.path_on_data_store),
        mode=checked_mode(config.mode),
        path_on_compute=config.path_on_compute,
        overwrite=bool(config.overwrite),
    )
    if found.setdefault(reference_name(name), spec) != spec:
        raise UserErrorException(
            f"Two different data references are called {name!r}: {_words(found[name])}, and {_words(spec)}.\n"
            "Give one of them another name: datastore.path('data', data_reference_name='other')."
        )


def _words(spec: DataReferenceSpec) -> str:
    return f"{spec.mode} of `{spec.path or '.'}` on `{spec.datastore}`"


def _check_named(texts: Sequence[str], found: Mapping[str, Any]) -> None:
    for text in texts:
        for name in _NAMED.findall(text):
            if name not in found:
                raise SubmitRejected(
                    f"An argument holds ${PREFIX}{name}, and the run has no data reference `{name}`.",
                    why=f"It has: {', '.join(sorted(found)) or 'none'}.",
                    hint="Give the reference itself as the argument, or add it: "
                    f"run_config.data_references['{name}'] = reference.to_config().",
                )
