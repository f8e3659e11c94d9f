"""Our reader of YAML against PyYAML's: on realistic files, on what PyYAML writes, and on random text."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runyard.core.yaml.cursor import YamlError
from runyard.core.yaml.reader import load
from runyard.core.yaml.writer import dump

# What texts without quotes mean in YAML 1.2, as Azure's SDK reads them.
KINDS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("merge", r"<<", "<"),
)


class Reference(yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML with the kinds of YAML 1.2."""


Reference.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in KINDS:
    Reference.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"), list(_first))


def reference(text: str) -> Any:
    return yaml.load(text, Reference)


CONDA = """\
# Conda environment specification.
name: project_environment
channels:
- anaconda
- conda-forge
dependencies:
  # The python interpreter version.
- python=3.6.2
- pip=20.1.1
- 'scikit-learn>=0.22,<0.24'   # quoted
- numpy=1.18.*=py36*
- pip:
  # Required packages for AzureML execution, history, and data preparation.
  - azureml-defaults==1.10.0
  - "--extra-index-url https://download.pytorch.org/whl/cpu"
  - torch @ https://example.org/torch-1.6.0-cp36-cp36m-linux_x86_64.whl
  - -r requirements.txt
  - git+https://github.com/org/repo.git@main#egg=repo&subdirectory=python
  - ipython[all]>=7 ; python_version >= "3.6"
prefix: /home/user/miniconda3/envs/project environment
variables: {OMP_NUM_THREADS: 4, "PATH_LIKE": "a:b", EMPTY: ""}
"""

RUNCONFIG = """\
# The script to run.
script: train.py
# The arguments to the script file.
arguments:
- --learning-rate
- 0.001
- --steps
- [1, 2,
   3]
- --message
- 'it''s
  two lines'
target: local
framework: Python
communicator: None
maxRunDurationSeconds:
nodeCount: 1
environment:
  name: Experiment train Environment
  python:
    userManagedDependencies: false
    interpreterPath: python
    condaDependenciesFile: .azureml/conda_dependencies.yml
    baseCondaEnvironment:
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
    URL: http://proxy.example:8080/#fragment
    COLON: "a: b"
  docker:
    enabled: true
    baseImage: mcr.example/azureml/base:intelmpi2018.3-ubuntu16.04
    baseDockerfile: |
      FROM ubuntu:20.04
      RUN apt-get update && \\
          apt-get install -y git  # tools

      ENV A="b"
    sharedVolumes: true
    shmSize: 2g
    arguments: []
  spark:
    repositories: []
    packages: []
    precachePackages: true
history:
  outputCollection: true
  snapshotProject: true
  directoriesToWatch:
  - logs
dataReferences: {}
data:
  input_1:
    dataLocation: {dataset: {id: 5d2d3a31-0000-4000-8000-000000000000, name: , version: 1}}
    mechanism: Mount
    overwrite: false
sourceDirectoryDataStore:
"""

JOB = """\
%YAML 1.1
---
$schema: https://example.org/command.schema.json
command: >-
  python train.py
  --data ${{inputs.data}}
  --rate ${{inputs.rate}}

  --verbose
defaults: &defaults
  gpus: 1
  tags: {owner: me, 'kind': "job"}
inputs:
  data: {type: uri_folder, path: ./data}
  rate: 1e-3
resources:
  <<: *defaults
  gpus: 2
matrix: {rate: [0.1, 0.01], layers: [[64, 64], [128]], flags: [on, off, yes, ~, null, TRUE]}
notes: |2-
    two deeper
  as written
kept: |+
  text

folded: >
  one
  two

    code
    more

  three
? complex
: value
"quoted key": 'value'
plain over
  lines: no
...
"""
JOB = JOB.replace("plain over\n  lines: no\n", "long: this text goes\n  on over\n\n  lines\n")

EDGES = [
    "",
    "# only a comment",
    "---\n",
    "--- text",
    "--- |\n  text\n",
    "a",
    "[]",
    "{}",
    "- a\n-\n- b",
    "- - a\n  - b\n- - c",
    "a:\n  - b\n  -\n    c: d\n    e:\n    - f\ng: h",
    "- a: 1\n  b: 2\n-   c: 3\n    d: 4",
    "a: [b, {c: d}, [e]]",
    "a: {b: , c}",
    "a: [x: 1, y]",
    '{"a":1,"b":[true,null]}',
    "a: 'b\n\n  c'",
    'a: "b\\\n  c\\x41\\u00e9\\n"',
    "a: |\n\n  b\n\n\n",
    "a: |-\n  b\n\n",
    "a: |+\n  b\n\n",
    "a: >\n\n  b\n  c\n",
    "a: >\n   b\n\n\n   c\n    d\n   e\n",
    "a: |\n  b",
    "a: |\nb: c",
    "a: |+\n\nb: c",
    "a:   # comment\n  b: c",
    "a: b#c #d",
    "a: #b",
    "a:\n\n  b",
    "a: b\n\n  c\n d",
    "a: &x [1]\nb: *x",
    "&k a: 1\nb: *k",
    "- &x\n  a: 1\n- *x",
    "a: !!str 1\nb: !!int '2'\nc: !!float 3\ne: !!null x",
    "!!map\na: b",
    "a: !!seq [b]",
    "a: -1\nb: +1\nc: .5\nd: 1.\ne: -.inf\nf: 1e3",
    "a: -b\nc: ?d\ne: :f",
    "a: b:c\nd: 'e'\n\"f\": g",
    "? a\n? b\n: c",
    "a: http://x/y?z=1#w",
    "- <<: {a: 1}\n  b: 2",
    "<<: [{a: 1}, {a: 2, b: 3}]\nc: 4",
    "a: 'x' # y\nb: \"z\" # w",
    "a: [\n  b, # c\n  d\n]\ne: f",
    "a: {\n}\n",
    "a: ''\nb: \"\"\nc: ' '",
    "a: x y  z ",
    "a:\r\n  - b\r\n",
    "é: ü",
    "a: [-1, -b]",
    "a: >-\n  b\n   c\n  d\n",
    "a: |1\n  b\n",
    "- |\n  a\n- >\n  b\n",
    "- - |\n    a\n",
    "--- # c\na: b\n...\n# end\n",
    "a: 0x1F\nb: 0o7\nc: 1_0\nd: 08\ne: 1:30\nf: 2020-01-01\ng: =",
    "a: !!bool yes",
    'a: "\\/\\e\\_"',
]


@pytest.mark.parametrize("text", [CONDA, RUNCONFIG, JOB, *EDGES])
def test_a_file_means_what_it_means_to_pyyaml(text: str) -> None:
    assert load(text) == reference(text)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("a: 1\nb: [1, 2\nc: 3", "Line 2, column 4", "never closed"),
        ("a: 'b\nc: d", "Line 1, column 4", "never closed"),
        ("a: 1\n b: 2", "Line 2, column 3", "`:` is not expected here"),
        ("a:\n  b: 1\n c: 2", "Line 3, column 2", "indentation"),
        ("a:\n- 'b'\n c", "Line 3, column 2", "`- item`"),
        ("a: 1\n- b", "Line 2, column 1", "indentation"),
        ("- a\nb: 1", "Line 2, column 1", "indentation"),
        ("a: b: c", "Line 1, column 5", "needs quotes"),
        ("a: - b", "Line 1, column 4", "line of its own"),
        ("a: @b", "Line 1, column 4", "needs quotes"),
        ("a: [b,,c]", "Line 1, column 7", "two commas"),
        ("a: {b: c d: e}", "Line 1, column 11", "`,` or `}`"),
        ("a: *b", "Line 1, column 4", "no anchor"),
        ('a: "\\q"', "Line 1, column 4", "means nothing"),
        ("a: !thing b", "Line 1, column 4", "not known"),
        ("a:\n\tb: c", "Line 2, column 2", "tab"),
        ("a: 'b' c", "Line 1, column 8", "should end here"),
        ("? [a]\n: b", "Line 1, column 1", "cannot be a key"),
        ("a: 1\n---\nb: 2", "Line 2, column 1", "another document"),
        ("a: | b\n", "Line 1, column 4", "nothing else"),
        ("%TAG ! x\n---\na: b", "Line 1, column 1", "%YAML"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(YamlError) as caught:
        load(text)

    assert str(caught.value).startswith(place) and problem in str(caught.value)


_TRICKY = "on yes << = 1e5 0x1F 0o7 1_000 2020-01-01 .5 null ~ a:b >=1 !t - -- --- ... 1e-3 %a 0b1 [a 10:30 007 .nan"
_TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff"), max_size=12)
    | st.sampled_from([*_TRICKY.split(), "- a", "a: b", "a #b", "? x", " x", "x "])
    | st.from_regex(r"[-0-9.eE:_~ xo+]{0,8}", fullmatch=True)
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_TEXTS.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    _VALUES,
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.sampled_from([None, True, False]),
    st.integers(2, 5),
    st.sampled_from([20, 80]),
    st.booleans(),
)
def test_what_pyyaml_writes_is_read_in_every_style(
    value: Any, style: Any, flow: Any, indent: int, width: int, starts: bool
) -> None:
    text = yaml.safe_dump(
        value, default_style=style, default_flow_style=flow, indent=indent, width=width, explicit_start=starts,
        allow_unicode=False,  # to PyYAML some characters beyond ASCII are ends of lines
    )  # fmt: skip

    assert load(text) == reference(text)


_PIECES = st.sampled_from(
    [
        "a",
        "b: ",
        "b:",
        "- ",
        "-",
        "? ",
        ": ",
        "\n",
        "\n",
        "\n  ",
        "\n    ",
        "  ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        '"',
        "|",
        ">",
        "|-",
        ">+",
        "#",
        " # c",
        "&x ",
        "*x",
        "!!str ",
        "1",
        "1.5",
        "null",
        "<<: ",
        "---",
        "\n---\n",
        "...",
        "\\n",
        "x y",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_PIECES, max_size=14).map("".join))
@example("a: >\n\n    b\n\n  c")
def test_random_text_is_refused_or_means_the_same(text: str) -> None:
    try:
        found = load(text)
    except YamlError:
        return
    try:
        expected = reference(text)
    except (yaml.YAMLError, ValueError, TypeError):
        return  # PyYAML is stricter in places where YAML 1.2 is not

    assert found == expected


@settings(max_examples=100, deadline=None)
@given(_VALUES)
def test_what_we_write_reads_the_same_everywhere(value: Any) -> None:
    text = dump({"value": value})

    assert load(text) == {"value": value} == yaml.safe_load(text)


def test_numbers_that_are_none_and_texts_that_look_so_are_written_apart() -> None:
    found = load(dump({"a": math.nan, "b": math.inf, "c": "null", "d": "1e5", "e": None}))

    assert math.isnan(found.pop("a"))
    assert found == {"b": math.inf, "c": "null", "d": "1e5", "e": None}
