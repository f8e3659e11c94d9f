"""Sections of environments that only Azure's Spark, Databricks and R runs read: kept, without effect here.

`EnvironmentDefinition` is the environment of a run configuration as scripts of 2018 make it.
"""

from __future__ import annotations

from typing import Any, List, Optional

from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.environments.environment import DEFAULT_NAME, DatabricksSection, Environment, SparkSection

__all__ = [
    "DatabricksSection",
    "EggLibrary",
    "EnvironmentDefinition",
    "JarLibrary",
    "MavenLibrary",
    "PyPiLibrary",
    "RCranLibrary",
    "RCranPackage",
    "RGitHubPackage",
    "RSection",
    "SparkPackage",
    "SparkSection",
]


class EnvironmentDefinition(Environment):
    """An environment without a name of its own, for `run_config.environment`."""

    def __init__(self, name: Optional[str] = None) -> None:
        super().__init__(name or DEFAULT_NAME)


class SparkPackage(SealedConfig):
    def __init__(
        self, group: Optional[str] = None, artifact: Optional[str] = None, version: Optional[str] = None
    ) -> None:
        self.group = group
        self.artifact = artifact
        self.version = version
        self._seal()


class MavenLibrary(SealedConfig):
    def __init__(
        self, coordinates: Optional[str] = None, repo: Optional[str] = None, exclusions: Optional[List[str]] = None
    ) -> None:
        self.coordinates = coordinates
        self.repo = repo
        self.exclusions = exclusions
        self._seal()


class PyPiLibrary(SealedConfig):
    def __init__(self, package: Optional[str] = None, repo: Optional[str] = None) -> None:
        self.package = package
        self.repo = repo
        self._seal()


class RCranLibrary(PyPiLibrary):
    """A package of R, from `repo` or from CRAN."""


class JarLibrary(SealedConfig):
    def __init__(self, library: Optional[str] = None) -> None:
        self.library = library
        self._seal()


class EggLibrary(JarLibrary):
    """A Python egg, by its address."""


class RCranPackage(SealedConfig):
    def __init__(self) -> None:
        self.name: Optional[str] = None
        self.version: Optional[str] = None
        self.repository: Optional[str] = None
        self._seal()


class RGitHubPackage(SealedConfig):
    def __init__(self) -> None:
        self.repository: Optional[str] = None
        self.auth_token: Optional[str] = None
        self._seal()


class RSection(SealedConfig):
    def __init__(self) -> None:
        self.r_version: Optional[str] = None
        self.user_managed = False
        self.rscript_path: Optional[str] = None
        self.snapshot_date: Optional[str] = None
        self.cran_packages: Optional[List[Any]] = None
        self.github_packages: Optional[List[Any]] = None
        self.custom_url_packages: Optional[List[str]] = None
        self.bioconductor_packages: Optional[List[str]] = None
        self._seal()
