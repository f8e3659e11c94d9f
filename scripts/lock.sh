#!/bin/sh
# Writes the lock files: exact versions with hashes for Python 3.10 and newer on Linux. None names a registry.
set -eu
cd "$(dirname "$0")/.."
uv=.venv/bin/uv

compile() {
    out=$1
    shift
    "$uv" pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes --no-header --no-annotate \
        --no-emit-index-url --no-config "$@" --output-file "$out"
}

# The widest first: the others choose the same versions.
compile requirements-dev.lock pyproject.toml --extra server --group demo --group dev --group setup
compile requirements-demo.lock pyproject.toml --extra server --group demo --constraint requirements-dev.lock
compile requirements.lock pyproject.toml --extra server --constraint requirements-dev.lock
compile requirements-setup.lock --group setup --constraint requirements-dev.lock
compile requirements-docs.lock --group docs --constraint requirements-dev.lock
compile requirements-node.lock --group node
