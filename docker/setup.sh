# Everything that a Debian machine needs to run Sluice, and to test it. Sourced by gateway/run, tests/run and the
# image's build; `root` must be the checkout. Each step is skipped where its result is there, so that a second run
# costs a fraction of a second. Nothing outside the checkout is touched but Debian packages that are missing.

say() { printf '%s\n' "$*" >&2; }
die() { say "sluice: $*"; exit 1; }

# install_packages WHY PACKAGE... : Debian packages, as root or through sudo.
install_packages() {
    why=$1; shift
    command -v apt-get >/dev/null 2>&1 || die "$why; this is not Debian (no apt-get), so please install it by hand"
    if [ "$(id -u)" = 0 ]; then as_root=; elif command -v sudo >/dev/null 2>&1; then as_root=sudo; else
        die "$why; neither root nor sudo is at hand, so please have this done: apt-get install $*"
    fi
    say "sluice: $why; installing $*"
    install='env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends'
    # The package lists of a fresh machine may be missing or old: refresh them, and then alone report a failure.
    $as_root $install "$@" >/dev/null 2>&1 </dev/null ||
        { $as_root apt-get update >/dev/null </dev/null &&
            $as_root $install "$@" >/dev/null </dev/null; } ||
        die "apt-get could not install $*"
}

python_fits() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# stamp LOCK : one line that changes with whatever makes .venv out of date: what is pinned, how Sluice itself is
# installed, the Python below, and the place (scripts in .venv name it).
stamp() {
    pinned=$(sed '/^\[tool/,$d' "$root/pyproject.toml" | cat - "$1" | sha256sum | cut -d ' ' -f 1)
    echo "$pinned $(readlink -f "$root/.venv/bin/python") $root"
}

# set_up_python LOCK : .venv with what LOCK pins, and Sluice itself.
set_up_python() {
    if [ "$(stamp "$1")" = "$(cat "$root/.venv/.set-up" 2>/dev/null)" ]; then return; fi
    python_fits || install_packages 'Python 3.11 or later is missing' python3
    python_fits || die "this machine's python3 is $(python3 --version 2>&1); Sluice needs Python 3.11 or later"
    mkdir -p "$root/.venv"
    (
        if command -v flock >/dev/null 2>&1; then flock 9; fi  # of two runs at once, one waits
        [ "$(stamp "$1")" != "$(cat "$root/.venv/.set-up" 2>/dev/null)" ] || exit 0
        say "sluice: installing the Python packages of ${1#"$root/"} into .venv (some minutes, once)"
        if ! "$root/.venv/bin/python" -m pip --version >/dev/null 2>&1; then
            python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv is missing" python3-venv
            python3 -m venv --clear "$root/.venv" || die 'python3 could not make .venv'
        fi
        pip="$root/.venv/bin/python -m pip --quiet --disable-pip-version-check install"
        # A caller's `set -e` does not reach here from within a list of `&&`, so each step says what follows it.
        # The build back end first, from the same lock, so that no package is built with an unpinned one.
        sed -n '/^setuptools==/,/[^\\]$/p' "$1" | $pip --require-hashes --requirement /dev/stdin &&
            $pip --require-hashes --no-build-isolation --use-pep517 --requirement "$1" </dev/null &&
            $pip --no-deps --no-build-isolation --editable "$root" </dev/null &&
            stamp "$1" >"$root/.venv/.set-up" || die "pip could not install ${1#"$root/"}"
    ) 9>"$root/.venv/.lock" || exit 1
}

# java_major COMMAND : the major version of a java, or 0 where there is none.
java_major() {
    major=$("$1" -version 2>&1 </dev/null | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    echo "${major:-0}"
}

# find_java : the home of the first Java that is new enough; nothing where there is none.
find_java() {
    for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java || echo /nowhere)" /usr/lib/jvm/*/bin/java; do
        if [ -x "$java" ] && [ "$(java_major "$java")" -ge 17 ]; then
            dirname "$(dirname "$(readlink -f "$java")")"
            return
        fi
    done
}

# set_up_java : JAVA_HOME, for Spark.
set_up_java() {
    JAVA_HOME=$(find_java)
    if [ -z "$JAVA_HOME" ]; then
        install_packages 'Java 17 or later is missing' default-jre-headless
        JAVA_HOME=$(find_java)
    fi
    [ -n "$JAVA_HOME" ] || die 'Debian gave a Java older than 17; set JAVA_HOME to a newer one'
    export JAVA_HOME
}

# archive_classes : what lets Spark start in half the time, made anew for another Java or other packages. Needs Sluice's
# code; Sluice works without it, so a failure is told and no more.
archive_classes() {
    archived="$(cat "$root/.venv/.set-up") $JAVA_HOME $(cksum "$JAVA_HOME/release" 2>/dev/null || true)"
    if [ "$archived" = "$(cat "$root/.venv/.archived" 2>/dev/null)" ]; then return; fi
    (
        if command -v flock >/dev/null 2>&1; then flock 9; fi  # of two runs at once, one waits
        cd "$root"
        .venv/bin/python -m storage.spark.make_class_archive || say "sluice: Spark's classes could not be archived"
        echo "$archived" >.venv/.archived
    ) 9>"$root/.venv/.lock"
}

set_up_to_serve() {
    set_up_java
    if [ -e "$root/.venv/.set-up-to-test" ]; then lock=tests/requirements.lock; else lock=requirements.lock; fi
    set_up_python "$root/$lock"
}

set_up_to_test() {
    set --
    command -v psql >/dev/null 2>&1 || set -- "$@" postgresql-client
    command -v javac >/dev/null 2>&1 || set -- "$@" default-jdk-headless
    [ -e /usr/share/java/postgresql.jar ] || set -- "$@" libpostgresql-jdbc-java
    [ $# = 0 ] || install_packages 'the tests run clients that are missing' "$@"
    set_up_java
    set_up_python "$root/tests/requirements.lock"
    touch "$root/.venv/.set-up-to-test"
}
