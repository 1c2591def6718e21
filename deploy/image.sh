#!/bin/sh
# Makes what the image holds, in a folder: the Dockerfile runs this, and so does a test, in a folder of its own.
# image.sh FOLDER packages: an environment with what the lock has for the service
# image.sh FOLDER freepull: freepull itself, built from these sources
# image.sh FOLDER kernels: machine code, compiled ahead
set -eu
folder=$1
step=$2
root=$(cd "$(dirname "$0")/.." && pwd)
pip_install() {
  "$1/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check --no-input --root-user-action=ignore \
    --require-hashes --only-binary :all: --requirement "$2"
}
case $step in
  packages)
    "${PYTHON:-python3}" -m venv "$folder"
    "$folder/bin/python" "$root/deploy/packages.py" live > "$folder/requirements.txt"
    pip_install "$folder" "$folder/requirements.txt"
    ;;
  freepull)
    build=$(mktemp -d)
    trap 'rm -rf "$build"' EXIT
    "${PYTHON:-python3}" -m venv "$build/tools"
    "$folder/bin/python" "$root/deploy/packages.py" hatchling > "$build/requirements.txt"
    pip_install "$build/tools" "$build/requirements.txt"
    "$build/tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir "$build" "$root"
    "$folder/bin/pip" install --quiet --no-deps --no-index --force-reinstall --root-user-action=ignore "$build"/*.whl
    ;;
  kernels)
    NUMBA_CACHE_DIR="$folder/kernels" "$folder/bin/freepull" warm
    chmod -R a+rX "$folder/kernels"
    ;;
  *)
    echo "image.sh FOLDER packages|freepull|kernels" >&2
    exit 2
    ;;
esac
