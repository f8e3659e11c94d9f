"""Install pip requirements into a Python with uv, for every builder that installs from an index.

uv does not read pip's configuration, so `read_pip_settings` reads it and `PipInstall` passes it on as uv's options.
`guard_pip` puts a stand-in for `pip` into environments that have none: the next `pip` on PATH would install elsewhere.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from configparser import Error, RawConfigParser
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence
from urllib.parse import unquote, urlsplit

from runyard.core.config.logins import hide_passwords
from runyard.core.errors import SubmitRejected
from runyard.core.lazy_dataclass import dataclass
from runyard.core.provided_packages import LeftOut, brought_by, package_name, split_provided
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import Check, Say
from runyard.environments.folder_requirements import folder_digest, folder_of, is_editable, is_named_by_content
from runyard.environments.horovod import Horovod, plan_horovod, split_horovod
from runyard.environments.process import run_program
from runyard.environments.system import list_installed
from runyard.environments.uv_program import find_uv, install_failed, uv_variables

_SECTIONS = ("global", "install")
_TRUE = ("1", "true", "yes", "on", "t", "y")
# Indexes where only the project itself publishes. With one of these beside PyPI, versions may be compared freely.
_CURATED_HOST = re.compile(r"download(?:-r2)?[.]pytorch[.]org|pypi[.]nvidia[.]com|data[.]pyg[.]org")
# Where everybody can publish under any name that is free.
_OPEN_HOST = re.compile(r"(?:test[.])?pypi(?:[.]python)?[.]org")
_FIRST, _BEST = "first-index", "unsafe-best-match"
NEXT_INDEX = "unsafe-first-match"  # uv's word for asking the next index where the first has nothing that fits
# Values that mean themselves in pip and in uv, and what uv calls them.
_VARIABLES = {"cert": "SSL_CERT_FILE", "client_cert": "SSL_CLIENT_CERT", "timeout_s": "UV_HTTP_TIMEOUT",
              "retries": "UV_HTTP_RETRIES"}  # fmt: skip
_FLAGS: Dict[str, Dict[str, Any]] = {
    "--pre": {"pre": True},
    "--no-index": {"no_index": True},
    "--no-deps": {"no_deps": True},
    "--require-hashes": {"require_hashes": True},
    "--prefer-binary": {},
}
_WITH_VALUE = {
    "-i": "index_url", "--index-url": "index_url", "--pypi-url": "index_url",
    "--extra-index-url": "extra_index_urls", "-f": "find_links", "--find-links": "find_links",
    "--trusted-host": "trusted_hosts", "--no-binary": "no_binary", "--only-binary": "only_binary",
}  # fmt: skip
_HASH, _GIT = " --hash=", " @ git+"
# What setuptools dropped, as a build's error names it, and the last versions that had it.
_OLDER_TOOLS = {r"No module named '?pkg_resources": "setuptools<81", r"use_2to3 is invalid": "setuptools<58"}
_SCRIPT = """#!/bin/sh
echo "error: Nothing can be installed into this environment while a run goes on: other runs share it." >&2
echo "hint: Name the package where you submit: env.python.conda_dependencies.add_pip_package('NAME')." >&2
exit 1
"""


@dataclass(frozen=True)
class PipSettings:
    index_url: Optional[str] = None
    extra_index_urls: List[str] = field(default_factory=list)
    find_links: List[str] = field(default_factory=list)
    no_index: bool = False
    pre: bool = False
    no_binary: List[str] = field(default_factory=list)
    only_binary: List[str] = field(default_factory=list)
    no_deps: bool = False
    require_hashes: bool = False
    constraints: List[str] = field(default_factory=list)  # files
    trusted_hosts: List[str] = field(default_factory=list)
    cert: Optional[str] = None
    client_cert: Optional[str] = None
    proxy: Optional[str] = None
    timeout_s: Optional[str] = None
    retries: Optional[str] = None
    index_strategy: Optional[str] = None  # uv's word for it; None: see `strategy`
    names_indexes: bool = False  # the environment itself does, beyond the settings of the machine

    @property
    def strategy(self) -> str:
        """Return how packages are found in several indexes.

        pip takes the highest version of all, so whoever publishes a private package's name on PyPI is installed in its
        place. Hence a package comes from the first index that has it, unless at most one index has other publishers.
        Of indexes that the machine's own settings name, mirrors of parts mostly, the next one is asked where the first
        has no version that fits.
        """
        others = {
            url for url in [self.index_url or "", *self.extra_index_urls] if not _CURATED_HOST.fullmatch(_host(url))
        }
        if self.index_strategy or len(others) < 2:
            return self.index_strategy or _BEST
        return _FIRST if self.names_indexes else NEXT_INDEX

    @property
    def is_first_index_only(self) -> bool:
        return self.strategy == _FIRST

    def _indexes(self) -> List[str]:
        """Return the indexes in the order in which they are asked: those where everybody can publish come last."""
        found = [*self.extra_index_urls, *([self.index_url] if self.index_url else [])]
        if self.strategy == _BEST:
            return found
        return sorted(found, key=lambda url: _OPEN_HOST.fullmatch(_host(url)) is not None)

    def what_counts(self) -> List[Any]:
        """Return what decides on which packages are found; a changed password or proxy does not."""
        urls = [self.index_url or "", *self.extra_index_urls, "", *self.find_links]
        addresses = [hide_passwords(url) for url in urls]
        limits = [[path, _mtime(path)] for path in self.constraints]
        strategy = [self.strategy] if self.extra_index_urls and self.strategy != _BEST else []
        return [addresses, self.no_index, self.pre, self.no_binary, self.only_binary, self.no_deps, limits, *strategy]

    def as_variables(self) -> Dict[str, str]:
        """Return uv's variables. Addresses may hold passwords, and arguments are seen by all in `ps`."""
        found = {"UV_DEFAULT_INDEX": self.index_url, "UV_PRERELEASE": "allow" if self.pre else None}
        if self.extra_index_urls:
            indexes = self._indexes()
            found["UV_DEFAULT_INDEX"] = indexes.pop() if self.index_url else None
            found["UV_INDEX"] = " ".join(indexes)  # asked before the default one
            found["UV_INDEX_STRATEGY"] = self.strategy
        if self.find_links:
            found["UV_FIND_LINKS"] = ",".join(self.find_links)
        if self.constraints:
            found["UV_CONSTRAINT"] = " ".join(self.constraints)
        if self.trusted_hosts:
            found["UV_INSECURE_HOST"] = " ".join(self.trusted_hosts)
        if self.proxy:
            found.update(dict.fromkeys(("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"), self.proxy))
        found.update({name: getattr(self, own) for own, name in _VARIABLES.items()})
        return {name: value for name, value in found.items() if value}

    def as_arguments(self) -> List[str]:
        """Return the rest, for which uv has no variables."""
        found = ["--no-index"] if self.no_index else []
        found += ["--no-deps"] if self.no_deps else []
        for package in self.no_binary:
            found += ["--no-binary", package]
        for package in self.only_binary:
            found += ["--only-binary", package]
        return found


def read_pip_settings(
    variables: Mapping[str, str], *, interpreter: Optional[str] = None, options: Sequence[str] = ()
) -> PipSettings:
    """Return pip's settings as pip finds them: its files, then `PIP_…` of `variables`, then the lines `options`.

    Raises:
        SubmitRejected: a file cannot be read, or an option cannot be followed here.
    """
    found: Dict[str, str] = {}
    for path in _files(variables, interpreter):
        found.update(_read_file(path))
    for name, value in variables.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE":
            found[name[len("PIP_") :].lower().replace("_", "-")] = value
    own = _settings(found, variables)
    settings = _with_options(own, options)
    names_indexes = (settings.index_url, settings.extra_index_urls) != (own.index_url, own.extra_index_urls)
    return replace(settings, names_indexes=names_indexes)


def _files(variables: Mapping[str, str], interpreter: Optional[str]) -> List[str]:
    home = variables.get("HOME") or os.path.expanduser("~")
    chosen = variables.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return []
    wide = (variables.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    own = variables.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    found = [os.path.join(folder, "pip", "pip.conf") for folder in wide] + ["/etc/pip.conf"]
    if not (chosen and os.path.exists(chosen)):
        found += [os.path.join(home, ".pip", "pip.conf"), os.path.join(own, "pip", "pip.conf")]
    if interpreter:
        found.append(os.path.join(os.path.dirname(os.path.dirname(interpreter)), "pip.conf"))
    return [path for path in [*found, *([chosen] if chosen else [])] if os.path.isfile(path)]


def _read_file(path: str) -> Dict[str, str]:
    parser = RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (Error, ValueError, OSError) as error:
        raise SubmitRejected(
            f"pip's configuration file `{path}` cannot be read.",
            why=hide_passwords(str(error)),
            hint="Correct it; `pip config debug` shows which files pip reads.",
        ) from error
    sections = [section for section in _SECTIONS if parser.has_section(section)]
    return {name.replace("_", "-"): value for section in sections for name, value in parser.items(section)}


def _settings(found: Mapping[str, str], variables: Mapping[str, str]) -> PipSettings:
    home = variables.get("HOME") or os.path.expanduser("~")

    def words(name: str) -> List[str]:
        return found.get(name, "").split()

    return PipSettings(
        index_url=found.get("index-url", "").strip() or None,
        extra_index_urls=words("extra-index-url"),
        find_links=[_expanded(word, home) for word in words("find-links")],
        no_index=found.get("no-index", "").strip().lower() in _TRUE,
        pre=found.get("pre", "").strip().lower() in _TRUE,
        no_binary=_packages(found.get("no-binary", "")),
        only_binary=_packages(found.get("only-binary", "")),
        constraints=[_expanded(word, home) for word in words("constraint")],
        trusted_hosts=words("trusted-host"),
        cert=_expanded(found.get("cert", "").strip(), home) or _certificates(variables),
        client_cert=_expanded(found.get("client-cert", "").strip(), home) or None,
        proxy=found.get("proxy", "").strip() or None,
        timeout_s=(found.get("timeout") or found.get("default-timeout") or "").strip().partition(".")[0] or None,
        retries=found.get("retries", "").strip() or None,
        index_strategy=variables.get("UV_INDEX_STRATEGY") or None,
    )


def _host(url: str) -> str:
    from urllib.parse import urlsplit  # only builds come here

    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _certificates(variables: Mapping[str, str]) -> Optional[str]:
    """Return the file that pip takes when it is told of none; uv knows the variable SSL_CERT_FILE alone."""
    if variables.get("SSL_CERT_FILE"):
        return None
    return variables.get("REQUESTS_CA_BUNDLE") or variables.get("CURL_CA_BUNDLE")


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _packages(text: str) -> List[str]:
    return [word for word in text.replace(",", " ").split() if word != ":none:"]


def _with_options(settings: PipSettings, lines: Sequence[str]) -> PipSettings:
    for line in lines:
        words = shlex.split(line, comments=True)
        while words:
            name, equals, value = words.pop(0).partition("=")
            if name in _FLAGS:
                settings = replace(settings, **_FLAGS[name])
                continue
            if not equals and name[:2] in ("-i", "-f") and len(name) > 2 and name[1] != "-":
                name, value, equals = name[:2], name[2:], "="
            if name not in _WITH_VALUE or not (equals or words):
                raise _unknown(line)
            settings = _with_option(settings, _WITH_VALUE[name], value if equals else words.pop(0))
    return settings


def _with_option(settings: PipSettings, name: str, value: str) -> PipSettings:
    if name == "index_url":
        return replace(settings, index_url=value, no_index=False)
    added: Dict[str, Any] = {
        name: [*getattr(settings, name), *(_packages(value) if name.endswith("_binary") else [value])]
    }
    return replace(settings, **added)


def _unknown(line: str) -> SubmitRejected:
    known = ", ".join(sorted({*_FLAGS, *_WITH_VALUE} - {"--pypi-url"}))
    return SubmitRejected(
        f"The pip option `{hide_passwords(line)}` cannot be followed here.",
        why="A build knows the options that say from where packages come.",
        hint=f"Remove it from the environment's pip lines. Known: {known}.",
    )


@dataclass(frozen=True)
class PipInstall:
    """The pip part of an environment: what is asked for, and from where it comes."""

    name: str
    requirements: List[str]
    left_out: List[LeftOut]  # asked for and not installed: Microsoft's own
    constraints: List[str]
    settings: PipSettings
    variables: Dict[str, str] = field(repr=False, default_factory=dict)
    allows_downloads: bool = False
    brought: List[str] = field(default_factory=list)  # what those bring along: installed on top, where it can be had
    horovod: Optional[Horovod] = None  # asked for: it is compiled, after all else is there
    run: Callable[..., int] = field(repr=False, compare=False, default=run_program)  # or one that runs uv elsewhere

    def what_counts(self) -> List[Any]:
        """Return all that decides on what gets installed, for the environment's key."""
        wanted = [self.requirements, self.constraints]
        return [[[hide_passwords(line), *_file_facts(line)] for line in lines] for lines in wanted] + [
            self.settings.what_counts(),
            *([] if self.horovod is None else [self.horovod.what_counts()]),
            *([] if not self.brought else [["brought", *self.brought]]),
        ]

    @property
    def is_locked(self) -> bool:
        """Whether hashes say which files are meant, as those of a lock file do."""
        return self.settings.require_hashes or any(_HASH in line for line in self.requirements)

    def environ(self) -> Dict[str, str]:
        return uv_variables(self.variables, self.settings.as_variables(), allows_downloads=self.allows_downloads)


def plan_pip(
    spec: EnvironmentSpec,
    *,
    variables: Mapping[str, str],
    requirements: Optional[Sequence[str]] = None,
    allows_downloads: bool = False,
    horovod_wheels: Optional[Path] = None,
) -> PipInstall:
    """Return what to install for `spec`; `requirements` in place of its own. Installs nothing.

    With `horovod_wheels`, the folder for them, Horovod is built on this node instead of being asked for at the index.

    Raises:
        SubmitRejected: a line cannot be installed here.
    """
    if "HOME" not in variables:  # another machine than the submitter's: its own settings count
        variables = {**os.environ, **variables}
    lines = spec.pip_packages if requirements is None else requirements
    wanted, left_out = split_provided([_checked(line) for line in lines])
    wanted += brought_by(left_out, wanted, is_base=False)
    horovod = None
    if horovod_wheels is not None:
        wanted, asked = split_horovod(wanted)
        horovod = plan_horovod(variables, wheels=horovod_wheels, asked=asked) if asked else None
    editable = [line for line in spec.pip_options if is_editable(line)]
    options = [line for line in spec.pip_options if line not in editable]
    settings = read_pip_settings(variables, interpreter=spec.interpreter, options=options)
    if wanted and all(_HASH in line or _GIT in line for line in wanted):  # no index can put in another file
        settings = replace(settings, index_strategy=settings.index_strategy or _BEST)
    return PipInstall(
        name=spec.name,
        requirements=sorted({*wanted, *editable}),
        left_out=left_out,
        constraints=sorted(set(spec.pip_constraints)),
        settings=settings,
        variables=dict(variables),
        allows_downloads=allows_downloads,
        horovod=horovod,
        brought=brought_by(left_out, wanted, is_base=True),
    )


def install(pip: PipInstall, python: str, *, say: Say, check: Check, keep: Sequence[int] = ()) -> None:
    """Install into the environment of `python`.

    Raises:
        SubmitRejected: uv could not; the message is its own explanation.
    """
    if pip.requirements:
        _install_requirements(pip, python, say=say, check=check, keep=keep)
        _install_brought(pip, python, say=say, check=check, keep=keep)
    if pip.horovod is not None:
        from runyard.environments.horovod import HorovodBuild  # few environments have it

        HorovodBuild(pip.horovod, pip, python, say=say, check=check, keep=keep).install()


def _install_brought(pip: PipInstall, python: str, *, say: Say, check: Check, keep: Sequence[int]) -> None:
    """Add what Microsoft's packages would have brought, beside what is there and without a change to that."""
    there = {package_name(one.name): one.version for one in list_installed(Path(python).parent.parent)}
    missing = [line for line in pip.brought if package_name(line) not in there]
    if not missing or pip.settings.require_hashes or pip.settings.no_deps:
        return
    constraints = [*pip.constraints, *(f"{name}=={version}" for name, version in there.items())]
    lines: List[str] = []
    try:
        beside = replace(pip, requirements=missing, constraints=constraints, brought=[])
        _install_requirements(beside, python, say=lines.append, check=check, keep=keep)
    except SubmitRejected:
        asked = ", ".join(one.requirement for one in pip.left_out if one.is_base)
        say(f"Left out, because they cannot be had beside the others: {', '.join(missing)}, which {asked} would bring.")
        return
    for line in lines:
        say(line)


def _install_requirements(pip: PipInstall, python: str, *, say: Say, check: Check, keep: Sequence[int]) -> None:
    lines: List[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        say(line)

    argv = [find_uv(pip.variables), "pip", "install", "--python", python, *pip.settings.as_arguments()]
    argv += ["--require-hashes"] if pip.settings.require_hashes else []
    with tempfile.NamedTemporaryFile("w", prefix="runyard-", suffix=".txt", encoding="utf-8") as limits:
        if pip.constraints:
            limits.write("\n".join(pip.constraints) + "\n")
            limits.flush()
            argv += ["-c", limits.name]
        feed = "\n".join(pip.requirements) + "\n"

        def run(**variables: str) -> int:
            environ = {**pip.environ(), **variables}
            return pip.run([*argv, "-r", "-"], environ=environ, say=hear, check=check, feed=feed, keep=keep)

        def run_with_tools(limit: str) -> int:
            with tempfile.NamedTemporaryFile("w", prefix="runyard-", suffix=".txt", encoding="utf-8") as tools:
                tools.write(limit + "\n")
                tools.flush()
                argv.extend(["--build-constraints", tools.name])
                return run()

        code = run()
        if code != 0 and pip.settings.is_first_index_only and _has_only_other_wheels(lines):
            say("warning: The first index has no wheel of it for this Python or machine; the next index is asked too.")
            lines.clear()
            code = run(UV_INDEX_STRATEGY=NEXT_INDEX)
        older = next((limit for pattern, limit in _OLDER_TOOLS.items() if re.search(pattern, "\n".join(lines))), "")
        if code != 0 and older:
            say(f"warning: The sources of a package are of before today's setuptools: it is built with {older}.")
            lines.clear()
            code = run_with_tools(older)
    if code != 0:
        raise install_failed(pip.name, code, lines)


def _has_only_other_wheels(lines: Sequence[str]) -> bool:
    """Whether uv says that a package's first index has it for other Pythons or machines only, and that a later one has
    more. A version that only a later index has is another matter: a stranger may have put it there.
    """
    text = " ".join(lines)
    return "no wheels with a matching" in text and "subsequent index" in text


def _checked(line: str) -> str:
    text = line.strip()
    if text.startswith("-"):
        raise _refused(line, "It is an option of pip, not a package.", "Leave it out, or name the package itself.")
    head = re.split(r"[\s@;\[]", text, maxsplit=1)[0]
    if head.startswith(".") or ("/" in head and "://" not in head and not head.startswith(("/", "file:/"))):
        why = "A path that does not begin with / says nothing on the node that installs it."
        raise _refused(line, why, "Give the full path of a wheel or folder, or put the code into source_directory.")
    return text


def _refused(line: str, why: str, hint: str) -> SubmitRejected:
    return SubmitRejected(f"The requirement `{hide_passwords(line)}` cannot be installed.", why=why, hint=hint)


def _file_facts(line: str) -> List[object]:
    """Return what tells whether the file or folder that a requirement names is the same as before."""
    folder = folder_of(line)
    if folder is not None and os.path.isdir(folder):
        if is_named_by_content(folder):  # a build may have left files in it
            return []
        return [folder_digest(folder, editable=is_editable(line))]
    target = line.partition(" @ ")[2].strip() or line.strip()
    path = unquote(urlsplit(target).path) if target.startswith("file:") else target
    if not path.startswith("/"):
        return []
    found = os.stat(path) if os.path.exists(path) else None
    return [found.st_size, found.st_mtime_ns] if found is not None else []


def guard_pip(prefix: Path) -> None:
    """Put the stand-in where a script's `pip install` finds it first, unless pip was asked for."""
    if (prefix / "bin" / "pip").exists():
        return
    for name in ("pip", "pip3"):
        script = prefix / "bin" / name
        script.write_text(_SCRIPT, encoding="utf-8")
        script.chmod(0o755)
