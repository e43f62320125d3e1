#!/bin/sh
# Installs Sinew below a prefix. Needs no root, and starts nothing.
#
#   sh install.sh [--prefix DIR] [--from URL]   DIR is ~/.local by default; URL is a mirror of the release
#   sh install.sh --uninstall [--prefix DIR]    removes hooks, service and sockets, then the program; keeps your data
#
# Beside an unpacked archive it installs that archive and needs no network. Otherwise it downloads the archive for this
# machine. In both cases nothing is installed that differs from the checksums.
set -eu

version='@VERSION@'
base='@BASE_URL@'

# Prints the name of the archive for a system and the checksum that it must have.
archive_for() {
  case $1 in
    #@ARCHIVES@
    *) return 1 ;;
  esac
}

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

prefix=
action=install
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -ge 2 ] || fail '--prefix needs a folder'; prefix=$2; shift 2 ;;
    --from) [ $# -ge 2 ] || fail '--from needs a URL'; base=$2; shift 2 ;;
    --uninstall) action=uninstall; shift ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown word '$1': run with --help" ;;
  esac
done
[ -n "$prefix" ] || prefix=${HOME:?HOME is not set}/.local
case $prefix in
  /*) ;;
  *) prefix=$(pwd)/$prefix ;;
esac
receipt=$prefix/share/sinew/installed-files

if command -v sha256sum >/dev/null 2>&1; then
  sum='sha256sum'
elif command -v shasum >/dev/null 2>&1; then
  sum='shasum -a 256'
else
  sum=
fi

# Removes a folder and the folders above it, up to the prefix, as long as they are empty.
remove_empty() {
  folder=$1
  while [ "$folder" != "$prefix" ] && [ "${folder#"$prefix"/}" != "$folder" ]; do
    rmdir -- "$folder" 2>/dev/null || return 0
    folder=$(dirname -- "$folder")
  done
}

uninstall() {
  [ -f "$receipt" ] || fail "there is no list of installed files, $receipt: was it installed below another --prefix?"
  # Hooks first: a host blocks its calls if it cannot start a hook.
  if [ -x "$prefix/bin/sinew" ]; then
    "$prefix/bin/sinew" uninstall --yes || fail 'sinew uninstall failed, so the program was not removed'
  fi
  while IFS= read -r name; do
    case $name in
      '' | /* | ../* | */../* | */..) fail "the list of installed files names '$name'" ;;
    esac
    rm -f -- "$prefix/$name"
    remove_empty "$(dirname -- "$prefix/$name")"
  done <"$receipt"
  rm -f -- "$receipt"
  remove_empty "$(dirname -- "$receipt")"
  printf 'removed from %s\n' "$prefix"
}

# Checks the unpacked archive in a folder and installs it.
install_from() {
  (cd -- "$1" && $sum -c SHA256SUMS 2>&1 | grep -v ': OK$' >&2) && fail 'files differ from SHA256SUMS: get the archive again'
  put "$1" bin/sinew 755
  put "$1" install.sh 755 share/sinew/install.sh
  (cd -- "$1" && find share -type f) >"$work/files"
  while IFS= read -r name; do
    put "$1" "$name" 644
  done <"$work/files"
  { printf 'bin/sinew\nshare/sinew/install.sh\n'; cat -- "$work/files"; } | LC_ALL=C sort >"$receipt.new"
  mv -f -- "$receipt.new" "$receipt"
}

# Copies a file under a temporary name and renames it: a running daemon keeps its program, and no reader sees a partial
# file.
put() {
  target=$prefix/${4:-$2}
  mkdir -p -- "$(dirname -- "$target")"
  cp -- "$1/$2" "$target.new.$$"
  chmod "$3" "$target.new.$$"
  mv -f -- "$target.new.$$" "$target"
}

# Prints the name of this system as the archives have it.
this_system() {
  case $(uname -s) in
    Linux) system=unknown-linux-gnu ;;
    Darwin) system=apple-darwin ;;
    *) fail "there is no archive for $(uname -s)" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) printf 'x86_64-%s\n' "$system" ;;
    aarch64 | arm64) printf 'aarch64-%s\n' "$system" ;;
    *) fail "there is no archive for $(uname -m)" ;;
  esac
}

download() {
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --output "$2" -- "$1"
  elif command -v wget >/dev/null 2>&1; then
    wget --quiet --output-document "$2" -- "$1"
  else
    fail 'neither curl nor wget is here: download the archive yourself, unpack it and run its install.sh'
  fi
}

fetch() {
  system=$(this_system)
  found=$(archive_for "$system") || fail "this release has no archive for $system"
  name=${found%% *}
  expected=${found##* }
  download "$base/$name" "$work/$name" || fail "cannot download $base/$name"
  actual=$($sum "$work/$name")
  [ "${actual%% *}" = "$expected" ] ||
    fail "$name has the checksum ${actual%% *}, not $expected: nothing was installed"
  tar -xzf "$work/$name" -C "$work"
  install_from "$work/${name%.tar.gz}"
}

if [ "$action" = uninstall ]; then
  uninstall
  exit 0
fi
[ "$(id -u)" != 0 ] || fail 'run it as your own user, without sudo'
[ -n "$sum" ] || fail 'neither sha256sum nor shasum is here, so nothing can be checked'
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
trap 'exit 1' HUP INT TERM
here=$(CDPATH='' cd -- "$(dirname -- "$0")" 2>/dev/null && pwd) || here=
if [ -n "$here" ] && [ -f "$here/SHA256SUMS" ] && [ -f "$here/bin/sinew" ]; then
  install_from "$here"
else
  fetch
fi

printf 'installed: %s/bin/sinew %s\n' "$prefix" "$version"
case ":${PATH:-}:" in
  *":$prefix/bin:"*) ;;
  *) printf 'add it to your PATH: export PATH="%s/bin:$PATH"\n' "$prefix" ;;
esac
printf 'next: sinew demo; sinew init; sinew service install\nafter an upgrade: sinew restart\n'
