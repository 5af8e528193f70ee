# shellcheck shell=sh disable=SC2154
# Sourced by ./heliograph and ./test: makes a Python environment once, and again when its requirements change.
# $home is the project's folder; $say names the caller in messages.

cache=${HELIOGRAPH_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/heliograph}

stop() {
    printf '%s: %s\n' "$say" "$*" >&2
    exit 2
}

tell() { printf '%s: %s\n' "$say" "$*" >&2; }

is_debian_root() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; }

install_one_of() {
    tell "installing $1 with apt-get, because $reason"
    apt-get update -q >&2 || tell "apt-get update did not work; trying to install anyway"
    for package; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$package" >&2; then
            return 0
        fi
    done
    stop "apt-get could not install $1: install it, and run this again."
}

# Prints the first Python that is new enough.
find_python() {
    for python in python3.13 python3.12 python3.11 python3; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

java_is_new() {
    [ -x "$1" ] || return 1
    version=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

find_java() {
    for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java || :)" /usr/lib/jvm/*/bin/java; do
        java_is_new "$java" && return 0
    done
    return 1
}

need_java() {
    find_java && return 0
    if is_debian_root; then
        reason="Kafka and Spark need Java 17 or newer"
        install_one_of openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless
        find_java && return 0
    fi
    stop "Java 17 or newer is missing. Install it (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)" \
        "or set JAVA_HOME to one, and run this again."
}

# need_command NAME WHY: returns with a command that has the name of its package.
need_command() {
    command -v "$1" >/dev/null && return 0
    is_debian_root || stop "$1 is missing, and $2. Install it, and run this again."
    reason=$2
    install_one_of "$1"
}

# Prints a uv: the machine's own, or one in the cache folder.
find_uv() {
    command -v uv && return 0
    tools=$cache/uv-$(cksum <"$home/requirements-uv.txt" | tr ' ' -)
    if [ ! -x "$tools/bin/uv" ]; then
        if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            is_debian_root || stop "Python's venv module is missing." \
                "Install it (Debian and Ubuntu: apt-get install python3-venv), and run this again."
            reason="Python's venv module is missing"
            install_one_of "$(basename "$(readlink -f "$python")")-venv" python3-venv
        fi
        mkdir -p "$cache"
        fresh=$(mktemp -d "$cache/uv.XXXXXX")
        if ! {
            "$python" -m venv "$fresh" &&
                "$fresh/bin/python" -m pip install -q --disable-pip-version-check --require-hashes \
                    -r "$home/requirements-uv.txt"
        } >&2; then
            rm -rf "$fresh"
            stop "uv could not be installed (the reason is above). Check the network, and run this again."
        fi
        # Another process may have made it meanwhile; either will do.
        if [ -e "$tools" ]; then rm -rf "$fresh"; else mv "$fresh" "$tools"; fi
    fi
    printf '%s\n' "$tools/bin/uv"
}

# The lock is a folder, since mkdir either makes it or fails; the holder's pid inside tells a stale one.
lock() {
    until mkdir "$1" 2>/dev/null; do
        [ -d "$1" ] || stop "$1 cannot be made: check who owns $home."
        holder=$(cat "$1/pid" 2>/dev/null || :)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
            rm -rf "$1"
        else
            sleep 1
        fi
    done
    echo $$ >"$1/pid"
    # shellcheck disable=SC2064 # the name is wanted as it is now
    trap "rm -rf '$1'" EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

unlock() {
    rm -rf "$1"
    trap - EXIT INT TERM HUP
}

# need_environment FOLDER REQUIREMENTS: returns with a whole environment in FOLDER.
need_environment() {
    wanted="$home $(cksum <"$home/$2")"
    stamp=$home/$1/stamp
    is_whole && return 0
    need_java
    lock "$home/$1.lock"
    is_whole || make_environment "$1" "$2"
    unlock "$home/$1.lock"
}

is_whole() {
    found=
    [ -f "$stamp" ] && read -r found <"$stamp"
    [ "$found" = "$wanted" ] && [ -x "${stamp%/stamp}/bin/python" ]
}

make_environment() {
    python=$(find_python) || stop "Python 3.11 or newer is missing." \
        "Install it (Debian and Ubuntu: apt-get install python3 python3-venv), and run this again."
    tell "making the Python environment $1, once (a minute or two)"
    uv=$(find_uv) || exit 2
    fresh=$home/$1.new
    rm -rf "$fresh"
    [ -t 2 ] && quiet= || quiet=--quiet
    # shellcheck disable=SC2086 # $quiet is one flag or none
    {
        "$uv" venv $quiet --relocatable --python "$python" "$fresh" &&
            "$uv" pip sync $quiet --python "$fresh/bin/python" --require-hashes --compile-bytecode "$home/$2"
    } >&2 || {
        rm -rf "$fresh"
        stop "the Python environment could not be made (the reason is above). Check the network, and run this again."
    }
    for packages in "$fresh"/lib/python3*/site-packages; do
        printf '%s\n' "$home/src" >"$packages/heliograph.pth"
    done
    printf '%s\n' "$wanted" >"$fresh/stamp"
    rm -rf "$home/$1.old"
    [ ! -e "$home/$1" ] || mv "$home/$1" "$home/$1.old"
    mv "$fresh" "$home/$1"
    rm -rf "$home/$1.old"
}

# need_classes FOLDER: returns with Spark's classes in an archive, from which it starts in a third of the time.
need_classes() {
    mark=$home/$1/share/heliograph/prepared
    [ ! -e "$mark" ] && [ -w "$home/$1" ] || return 0
    lock "$home/$1.lock"
    if [ ! -e "$mark" ]; then
        tell "preparing Spark's classes, once (half a minute)"
        if "$home/$1/bin/python" -m heliograph.spark.classes >&2; then
            : >"$mark"
        else
            tell "Spark starts without them, more slowly."
        fi
    fi
    unlock "$home/$1.lock"
}
