"""The documentation is true: links lead somewhere, settings, commands, errors and dependencies are all described."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tokenize
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

import runyard
from runyard.core import errors
from runyard.core.config.settings import Settings
from tests.azureml.test_other_pythons import VERSIONS
from tests.cluster.ray_cluster import RAY
from tests.e2e.frameworks import OPEN_MPI_5

ROOT = Path(__file__).parent.parent
SKIPPED = {
    ".git",
    ".venv",
    ".runyard",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "dist",
    "node_modules",
    "static",  # built
}
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)

# Split, so that this file does not hold what it forbids.
MACHINE_PATHS = re.compile(r"(?<![\w./~])/(?:wor" r"k|roo" r"t)/[\w.]|/opt/(?:pypi|wheels)")
REGISTRIES = re.compile(
    r"(?:artifac"
    r"tory|nex"
    r"us|py"
    r"pi|pyth"
    r"onhosted|devpi|jf"
    r"rog)[\w.-]*\.(?:org|io|com|net|internal|local)",
    re.I,
)


def files(*patterns: str) -> list[Path]:
    found = []
    for place, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED]
        found += [Path(place, name) for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    return sorted(path for path in found if path.is_file() and path.name not in SKIPPED)  # .git is a file in a worktree


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", files("*.md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_titles_that_exist(page: Path) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert not broken


# Names of other people's files: scripts of examples, what Python or a package index looks for.
OTHERS = {
    "train.py",
    "src/train.py",
    "my_project/train.py",
    "serve.py",  # of a packaged model
    "iris-service/serve.py",
    "submit.py",
    "train_all.py",
    "setup.py",
    "sitecustomize.py",
    "tests/browser/test_x.py",
    "t.py",
    "project/train.py",
    "my_project/submit.py",
    "hello.py",  # of the guides: each is a block of its page
    "connect.py",
    "features.py",
    "benchmarks/NAME.py",
}
FILE = re.compile(r"(?<![\w./*<>{}-])[\w/-]*\w\.py\b")


def lost_files(text: str, known: set[str]) -> list[str]:
    """Return the files named in a text that are not there; the end of a path is enough (`runs/submit.py`)."""
    return [name for name in FILE.findall(text) if name not in OTHERS and name not in known]


def known_files() -> set[str]:
    parts = [path.relative_to(ROOT).parts for path in files("*.py")]
    return {"/".join(tail[start:]) for tail in parts for start in range(len(tail))}


def test_files_that_pages_and_comments_name_are_there() -> None:
    known = known_files()
    lost = [
        f"{page.relative_to(ROOT)}: {name}" for page in files("*.md") for name in lost_files(page.read_text(), known)
    ]
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        lost += [f"{path.relative_to(ROOT)}: {name}" for name in lost_files(_remarks(path), known)]

    assert lost_files("see `engine/runs/submit.py` and yard.py, engine/yard.py", known) == ["engine/yard.py"]
    assert not lost


def _remarks(path: Path) -> str:
    """Return the comments and docstrings of a module."""
    with path.open("rb") as stream:
        comments = [token.string for token in tokenize.tokenize(stream.readline) if token.type == tokenize.COMMENT]
    nodes = ast.walk(ast.parse(path.read_text()))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n".join(comments + [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)])


def test_the_architecture_page_has_every_room() -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `([\w/]+)` \| (.+) \|$", page, re.MULTILINE)
    folders = {path.parent.relative_to(ROOT / "src") for path in (ROOT / "src/runyard").rglob("__init__.py")}
    rooms = {str(folder.relative_to("runyard")) for folder in folders} - {".", "store/migrations/versions"}

    assert sorted(name for name, _ in rows) == sorted([*rooms, "azureml"])
    assert [name for name, cells in rows if not re.search(rf"\]\(\.\./src/(runyard/)?{name}/[\w./]+\)$", cells)] == []


def test_the_flows_of_the_architecture_page_are_short() -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    flows = re.findall(r"^## Flow: (.+)\n\n\|.+\n\|-.+\n((?:\|.+\n)+)", page, re.MULTILINE)

    assert [title for title, _ in flows] == ["a submit", "a metric", "a failure"]
    assert all(len(text.splitlines()) <= 12 for _, text in flows)


def test_every_documentation_page_is_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "docs/index.md", ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        waiting += [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text())]

    assert set((ROOT / "docs").rglob("*.md")) <= seen


def test_every_setting_is_described() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    source = (ROOT / "src/runyard/core/config/settings.py").read_text()
    variables = set(re.findall(r"RUNYARD_[A-Z_]+", source))

    assert len(variables) >= len(Settings.__dataclass_fields__)
    assert {name for name in variables if f"`{name}`" not in page} == set()


def test_every_error_code_is_described() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text()
    codes = {
        cls.code for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.RunyardError)
    }

    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_every_dependency_is_explained() -> None:
    page = (ROOT / "docs/dependencies.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    names = set(re.findall(r'"([a-z][a-z0-9-]+)>=', project))

    assert names
    assert {name for name in names if not re.search(rf"(?<![\w-]){name}(?![\w-])", page)} == set()


def test_the_command_line_reference_is_what_the_commands_say() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts/write_reference.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 0, result.stderr


def test_version_and_changelog_agree() -> None:
    titles = re.findall(r"^## +(\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert titles[:2] == ["Unreleased", runyard.__version__]


def test_the_changelog_has_short_lines_in_four_sections() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    sections = {line[4:] for line in lines if line.startswith("### ")}

    assert [line for line in lines if len(line) > 160] == []
    assert sections <= {"Added", "Changed", "Fixed", "Security"}


GENERATED = {"azureml-coverage.md", "azureml-names.md", "cli.md", "rights.md"}


def test_prose_has_lines_of_at_most_160_characters() -> None:
    long = []
    for page in files("*.md"):
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines = [] if page.name in GENERATED else text.splitlines()
        long += [f"{page.name}: {line[:80]}" for line in lines if len(line) > 160 and not line.startswith("|")]

    assert not long


# What reads as translated, and how a native reader would say it. Generated pages hold what the commands' help says.
TRANSLATED = {
    r"\bof ours\b": "Runyard's",
    r"\bso often at most\b": "up to N times",
    r"\b(?:is|are|was|were) told\b": "sees, gets, is notified",
    r"\btold this once\b|, this once\b": "shown only once",
    r"\bshall\b": "should, must, will",
    r"\b(?:go|goes|gone|went) on\b": "continue",
    r"\bbelongs? into\b": "belong in",
    r"^(?:- |\d\. )?Who (?!.*\?$)": "a user who",
    r"\bmay bear\b": "can bear",
    r"\bmade anew\b": "recreated",
    r"\b(?:some|any)body\b": "someone, anyone, or the noun",
    r"\bnodes there\b": "nodes up",
}
READ_BY_USERS = (
    "README.md",
    "docs/*.md",
    *(f"docs/{each}/*.md" for each in ("guides", "tutorials", "concepts", "reference")),
)


def test_pages_for_users_have_no_phrase_that_reads_as_translated() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {match.group()!r}, better: {better}"
        for place in READ_BY_USERS
        for page in sorted(ROOT.glob(place))
        for phrase, better in TRANSLATED.items()
        for match in re.finditer(phrase, page.read_text(), re.MULTILINE)
        if page.name not in ("azureml-names.md", "azureml-coverage.md", "mlflow-conformance.md")
    ]

    assert not found


def test_words_are_spelt_right() -> None:
    places = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "docs", "examples", "src"]
    words = [sys.executable, "-m", "codespell_lib", *places]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_fits_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_no_file_names_this_machine_or_a_package_registry() -> None:
    found = []
    for path in files("*"):
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in MACHINE_PATHS.finditer(text)]
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in REGISTRIES.finditer(text)]

    assert not found


ADVICE = ["Names are identities."]  # of docs/security.md: no promise


def test_every_promise_names_a_test_and_every_test_named_exists() -> None:
    page = (ROOT / "docs/promises.md").read_text()
    rows = dict(re.findall(r"^\| (.+?) \| (`.+`) \|$", page, re.MULTILINE))
    readme = (ROOT / "README.md").read_text().partition("## What it promises")[2]
    life = (ROOT / "docs/concepts/life-of-a-run.md").read_text()
    security = (ROOT / "docs/security.md").read_text()
    promises = re.findall(r"^- \*\*(.+?)\*\*", readme, re.MULTILINE)  # the bullets, then the rows of figures
    promises += re.findall(r"^\| (.+?) \| [^|]+ \| `make \w+` \|$", readme, re.MULTILINE)
    promises += re.findall(r"^\d\. \*\*(.+?)\*\*", life, re.MULTILINE)
    promises += re.findall(r"^\| (the .+?) \|", life, re.MULTILINE)
    promises += re.findall(r"^(?:- )?\*\*([^*]{3,40}?)\*\*", security, re.MULTILINE)
    named = {name for cell in rows.values() for name in re.findall(r"`([^`]+)`", cell)}

    assert len(promises) > 30
    assert [promise for promise in promises if promise not in {*rows, *ADVICE}] == []
    assert {name for name in named if not _exists(*name.partition("::")[::2])} == set()


def test_every_id_that_a_test_cites_is_explained_beside_the_tests() -> None:
    pages = [(ROOT / "tests" / folder / "README.md").read_text() for folder in ("attacks", "faults", "e2e")]
    rows = [cells for page in pages for cells in re.findall(r"^\| ([A-Z]\d+(?:, [A-Z]\d+)*) \|", page, re.MULTILINE)]
    explained = [id for cells in rows for id in cells.split(", ")]
    cited: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                said = getattr(node, "name", "").upper().replace("_", " ") + " " + (ast.get_docstring(node) or "")
                cited.update(dict.fromkeys(re.findall(r"\b[ACHLMR]\d{1,2}\b", said), path.name))
    named = re.findall(r"`([\w/]+\.py::\w+)`", "".join(pages))

    assert len(cited) > 90 and len(named) > 60
    assert {id: path for id, path in cited.items() if id not in explained} == {}
    assert len(explained) == len(set(explained))
    assert [name for name in named if not _exists(*f"tests/{name}".split("::"))] == []


def _exists(path: str, test: str) -> bool:
    file = ROOT / path
    return file.is_file() and (not test or f"\ndef {test}(" in file.read_text())


def test_lock_files_pin_every_package_by_hash() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        pins = re.findall(r"^[a-z][^\n]*(?:\n +--hash=sha256:[0-9a-f]{64} *\\?)+", lock.read_text(), re.MULTILINE)
        names = re.findall(r"^\S", lock.read_text(), re.MULTILINE)

        assert pins and len(pins) == len(names), lock.name


def test_ci_runs_the_targets_that_people_run() -> None:
    script = (ROOT / ".ci/run").read_text()

    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert "for target in test check test-external" in script


def test_workflows_and_hooks_call_what_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {path.stem: _make_calls(path) for path in (ROOT / ".github/workflows").glob("*.yml")}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    programs = {hook["entry"].split()[0] for hook in hooks if "/" in hook["entry"].split()[0]}

    assert called["tests"] == {"test", "check", "wheel", "test-external"}
    assert called["release"] == {"check", "test", "test-upgrade", "wheel"}
    assert set.union(*called.values()) <= targets
    assert programs == {".venv/bin/ruff", ".venv/bin/python"}
    assert all(yaml.safe_load(path.read_text()) for path in (ROOT / ".github").rglob("*.yml"))


def _make_calls(workflow: Path) -> set[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    commands = "\n".join(step.get("run", "") for job in jobs for step in job["steps"])
    return set(re.findall(r"(?:^|\|\| )make ([a-z-]+)", commands, re.MULTILINE))


def test_the_support_page_names_the_versions_that_are_tested() -> None:
    rows = dict(re.findall(r"^\| ([^|]+?) \| (.+?) \|$", (ROOT / "docs/support.md").read_text(), re.MULTILINE))
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]
    (slurm,) = set(re.findall(r"slurm-wlm ([\d.]+),", (ROOT / "tests/cluster/test_slurm.py").read_text()))
    oldest, newest = matrix["python"][0], matrix["python"][-1]
    project = (ROOT / "pyproject.toml").read_text()

    assert f"{oldest} to {newest}" in rows["Python of the server"]
    assert (
        f"python_version >= '{oldest}'" in project and "3.8 to 3.13" in rows["Python of the SDK and the command line"]
    )
    assert f" {slurm}," in rows["Slurm"]
    assert RAY[0].partition("==")[2] in rows["Ray"] and OPEN_MPI_5[0].partition("==")[2] in rows["Open MPI"]
    assert ", ".join(VERSIONS) in rows["Python of your scripts, and of `azureml` inside them"]
