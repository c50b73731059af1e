#!/usr/bin/env bash
# Make .venv with everything to develop, test and demonstrate gpusight; PYTHON names the interpreter to make it with.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

say() { echo "bootstrap: $*" >&2; }
ask() { "$python" -c "$1" 2>/dev/null; }

command -v "$python" >/dev/null || {
  say "there is no $python here; install Python 3.11 or newer, or name one: make venv PYTHON=/path/to/python3"
  exit 1
}
version=$(ask 'import sys; print("%d.%d" % sys.version_info[:2])') || {
  say "$python does not run; name another Python: make venv PYTHON=/path/to/python3"
  exit 1
}
ask 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  say "gpusight needs Python 3.11 or newer, and $python is $version; name another one: make venv PYTHON=/path/to/python3"
  exit 1
}
# Debian packs these two apart from Python.
ask 'import venv, ensurepip' || scripts/debian_packages.sh "python$version-venv"
ask 'import venv, ensurepip' || {
  say "$python cannot make virtual environments: its modules venv and ensurepip are missing"
  exit 1
}

.venv/bin/python -c 'import pip' 2>/dev/null || "$python" -m venv --clear .venv
pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input --quiet "$@" </dev/null; }
say "installing the packages of requirements/dev.txt into .venv"
pip install --require-hashes -r requirements/dev.txt
pip install --no-deps --no-build-isolation -e .
