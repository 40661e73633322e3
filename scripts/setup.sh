#!/usr/bin/env bash
# Make the virtual environment, once: `scripts/setup.sh dev` for development, `scripts/setup.sh demo` for the demo.
# PYTHON= chooses the interpreter, VENV= the directory. Does nothing when all is up to date; a second one waits.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-dev} in
    dev) wanted=dev extras=dev ;;
    demo) wanted=demo extras=cli,sqlite ;;
    *) die "usage: scripts/setup.sh [dev|demo]" ;;
esac

on_debian='On Debian 12 or later:  apt-get install git make python3 python3-venv'

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON is not a command."
        is_new_enough "$PYTHON" || die "PYTHON=$PYTHON does not run, or is older than Python 3.11."
        printf '%s\n' "$PYTHON"
        return
    fi
    # Being on PATH is not enough: a version manager's stand-in may refuse to run.
    for candidate in python3.13 python3.12 python3.11 python3; do
        if is_new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or later found (tried python3.13, python3.12, python3.11, python3).
$on_debian
Or name one:  make test PYTHON=/path/to/python3"
}

# One line that tells two interpreters apart, the same inside and outside an environment made from it.
identity_of() {
    "$1" -c 'import platform, sys; print(platform.python_implementation(), platform.python_version(), sys.base_prefix)'
}

python=$(find_python)
interpreter=$(identity_of "$python")

# Changes whenever the environment has to be done again.
fingerprint() {
    printf '%s\n%s\n' "$interpreter" "$root"
    "$python" - pyproject.toml constraints.txt <<'PY'
import hashlib, pathlib, sys
for name in sys.argv[1:]:
    print(name, hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest())
PY
}

stamp=$VENV/anarchon-setup
# What development needs includes what the demo needs.
is_up_to_date() {
    [[ -x $VENV/bin/python && -f $stamp ]] || return 1
    local have
    have=$(<"$stamp")
    [[ $have == "dev"$'\n'"$1" || $have == "$wanted"$'\n'"$1" ]]
}

current=$(fingerprint)
is_up_to_date "$current" && exit 0

# The lock goes with the open file, so it ends with this script however that ends.
exec 9>"$VENV.lock"
"$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
is_up_to_date "$current" && exit 0

"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    die "$("$python" --version) at $(command -v "$python") cannot make virtual environments: venv or ensurepip is missing.
$on_debian"

if [[ -e $VENV || -L $VENV ]]; then
    [[ -f $VENV/pyvenv.cfg ]] ||
        die "$root/$VENV exists and is not a virtual environment; move it away, or choose another with VENV=."
    # An environment made by other means is kept and brought up to date, if it is of this interpreter.
    moved=no
    [[ -f $stamp && $(sed -n 3p "$stamp") != "$root" ]] && moved=yes
    if [[ $moved == yes || $(identity_of "$VENV/bin/python" 2>/dev/null || true) != "$interpreter" ]]; then
        say "$VENV was made for another interpreter or place: making it again"
        rm -rf -- "$VENV"
    fi
fi
rm -f -- "$stamp"

if [[ ! -e $VENV ]]; then
    say "Making $VENV with $("$python" --version)"
    "$python" -m venv "$VENV"
elif ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    "$VENV/bin/python" -m ensurepip --upgrade >/dev/null
fi

say "Installing anarchon[$extras] into $VENV"
pip=("$VENV/bin/python" -m pip --disable-pip-version-check --no-input install --quiet --constraint constraints.txt)
export PIP_USER=0
# The build tool first: the build then runs with the pinned one and needs no environment of its own.
"${pip[@]}" hatchling
"${pip[@]}" --no-build-isolation --editable ".[$extras]"

printf '%s\n%s\n' "$wanted" "$current" >"$stamp"
say "$VENV is ready"
