#!/bin/sh
# Installs Sinew from the folder of this script. Needs no network and no root, and starts nothing.
#
#   sh install.sh [--prefix DIR]     DIR is ~/.local by default
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
prefix=${HOME:?HOME is not set}/.local

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -ge 2 ] || fail '--prefix needs a folder'; prefix=$2; shift 2 ;;
    -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown word '$1': only --prefix DIR is known" ;;
  esac
done

# Refuse an archive that was modified.
if command -v sha256sum >/dev/null 2>&1; then
  sum='sha256sum'
elif command -v shasum >/dev/null 2>&1; then
  sum='shasum -a 256'
else
  fail 'neither sha256sum nor shasum is here, so nothing can be checked'
fi
(cd -- "$here" && $sum -c SHA256SUMS 2>&1 | grep -v ': OK$' >&2) && fail 'files differ from SHA256SUMS: get the archive again'

# Copy each file under a temporary name and rename it: a running daemon keeps its program, and no reader sees a partial file.
put() {
  target=$prefix/$1
  mkdir -p -- "$(dirname -- "$target")"
  cp -- "$here/$1" "$target.new.$$"
  chmod "$2" "$target.new.$$"
  mv -f -- "$target.new.$$" "$target"
}

put bin/sinew 755
(cd -- "$here" && find share -type f) | while IFS= read -r name; do
  put "$name" 644
done

printf 'installed: %s/bin/sinew\n' "$prefix"
case ":${PATH:-}:" in
  *":$prefix/bin:"*) ;;
  *) printf 'add it to your PATH: export PATH="%s/bin:$PATH"\n' "$prefix" ;;
esac
printf 'next: sinew init, sinew workspace add DIR, sinew service install\n'
