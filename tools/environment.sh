# What ./serve, ./test and .ci/run share: a virtual environment with the pinned packages, made once.

# Some machines forbid it; but then each of a run's many processes would compile all modules again, for seconds.
unset PYTHONDONTWRITEBYTECODE

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "squinney: Python 3.11 or newer with venv is needed. On Debian 12 or Ubuntu 24.04: apt install python3 python3-venv;" \
        "on Ubuntu 22.04: apt install python3.11 python3.11-venv" >&2
    return 1
}

# prepare EXTRA: installs nothing, and touches no network, while pyproject.toml and constraints.txt are as they were.
prepare() {
    local extra=$1 python stamp wanted
    stamp=.venv/.stamp-$extra
    wanted=$(cat pyproject.toml constraints.txt | cksum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then return; fi
    python=$(find_python)
    echo "squinney: installing into .venv (the first time takes a minute)" >&2
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    # What is never imported need not be compiled: a sixth of the time.
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-compile --constraint constraints.txt \
        --editable ".[$extra]"
    rm -f .venv/.stamp-*
    echo "$wanted" >"$stamp"
    if [ "$extra" = dev ]; then echo "$wanted" >.venv/.stamp-all; fi
}

# Browser tests use chromium on PATH, else Debian's package where we may install it.
find_browser() {
    if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then return; fi
    install_package chromium "for the browser tests"
    command -v chromium >/dev/null || echo "browser: not run (no chromium on PATH; apt install chromium)" >&2
}

# The tests of our nginx configuration use Debian's package likewise.
find_nginx() {
    if PATH=$PATH:/usr/sbin command -v nginx >/dev/null; then return; fi
    install_package nginx-light "for the tests of its configuration"
}

# install_package PACKAGE PURPOSE: where we may. RUNLEVEL: a package with a service does not start it.
install_package() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "squinney: installing $1 $2" >&2
        { apt-get -qq update && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$1"; } \
            >/dev/null 2>&1 || true
    fi
}
