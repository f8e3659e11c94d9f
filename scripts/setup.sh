#!/bin/sh
# Puts exactly what a lock file names, and this checkout, into .venv: `sh scripts/setup.sh requirements-dev.lock`.
set -eu
cd "$(dirname "$0")/.."
lock=$1
venv=.venv
here=$(pwd)

say() { printf '%s\n' "$*" >&2; }

is_fit() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-python3.13 python3.12 python3.11 python3.10 python3 python}; do
        # A pyenv shim is on PATH for versions that it then refuses to run, so each one is tried.
        if is_fit "$name"; then
            echo "$name"
            return
        fi
    done
    say "error: There is no Python here that Runyard can use."
    say "It needs Python 3.10 or newer with the modules venv and ensurepip; tried: ${PYTHON:-python3.13 … python3.10, python3}."
    say ""
    say "hint: On Debian and Ubuntu: \`apt install python3 python3-venv\`. Or name one: \`make demo PYTHON=/path/to/python3\`."
    exit 1
}

make_venv() {
    python=$(find_python)
    say "Making $venv with $("$python" --version 2>&1) …"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --no-user --disable-pip-version-check --no-deps --require-hashes \
        -r requirements-setup.lock
    printf '%s\n' "$here" >"$venv/made-for"
}

# uv is quick but does not read pip's configuration files; where only those know the way, pip does the same work.
install() {
    UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-}}
    SSL_CERT_FILE=${SSL_CERT_FILE:-${PIP_CERT:-}}
    [ -z "$UV_DEFAULT_INDEX" ] || export UV_DEFAULT_INDEX
    [ -z "$SSL_CERT_FILE" ] || export SSL_CERT_FILE
    UV_PYTHON_DOWNLOADS=never "$venv/bin/uv" pip install --quiet --no-config --python "$venv/bin/python" "$@" && return
    say "uv could not install; pip tries."
    "$venv/bin/python" -m pip install --quiet --no-user --disable-pip-version-check "$@"
}

if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$here" ] || ! "$venv/bin/python" -m uv --version >/dev/null 2>&1; then
    make_venv
fi

has_node() { command -v npm >/dev/null 2>&1 && node -e 'process.exit(parseInt(process.versions.node) < 20)' 2>/dev/null; }

say "Installing $lock …"
has_node || [ -f src/runyard/studio/static/index.html ] || install --require-hashes -r requirements-node.lock || true
# The web page is built meanwhile; the editable install's hook then finds it done.
"$venv/bin/python" scripts/build_studio.py &
install --require-hashes -r "$lock"
wait
install --no-deps --no-build-isolation --editable .
