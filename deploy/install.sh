#!/bin/sh
# Installs gateway for the user who runs this, below ~/.local, once its sum is right. See --help.
set -eu

# Where the release is: a URL or a directory. `bun run release --url` writes it here.
FROM=''

usage() {
  cat <<'TEXT'
sh install.sh [--from URL-or-directory] [--dir ~/.local] [--key KEY.pem] [--uninstall]

Installs gateway, its man pages and its completions below --dir. Every file is checked by
SHA256SUMS of the release, and that by SHA256SUMS.sig with --key, the public key of who made it.
--uninstall removes what was installed, and no data.
TEXT
}

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

# Puts a file of the release into the temporary directory.
get() {
  case $FROM in
    http://* | https://*)
      if command -v curl >/dev/null; then curl -fsSL -o "$temporary/$1" "$FROM/$1"
      elif command -v wget >/dev/null; then wget -q -O "$temporary/$1" "$FROM/$1"
      else fail 'expected curl or wget'
      fi || fail "$FROM/$1 is not there"
      ;;
    *) cp "$FROM/$1" "$temporary/$1" || fail "$FROM/$1 is not there" ;;
  esac
}

# Names this system as the files of a release do.
name_system() {
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) fail "there is no program for $(uname -s)" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) cpu=x64 ;;
    aarch64 | arm64) cpu=arm64 ;;
    *) fail "there is no program for $(uname -m)" ;;
  esac
  libc=''
  if [ "$os" = linux ] && ldd --version 2>&1 | grep -qi musl; then libc=-musl; fi
  echo "$os-$cpu$libc"
}

check_sum() {
  sum=$(if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi <"$temporary/$1")
  grep -qxF "${sum%% *}  $1" "$temporary/SHA256SUMS" || fail "the sum of $1 is wrong: it is not installed"
}

check_signature() {
  get SHA256SUMS.sig
  openssl pkeyutl -verify -pubin -inkey "$1" -rawin -in "$temporary/SHA256SUMS" \
    -sigfile "$temporary/SHA256SUMS.sig" >/dev/null 2>&1 || fail "SHA256SUMS is not signed with $1"
}

# Removes what the list of an installation names, but for one file.
remove_listed() {
  [ -f "$dir/$list" ] || return 0
  (cd "$dir" && grep -vx "$1" "$list" | xargs rm -f)
}

uninstall() {
  remove_listed ''
}

# Copies a file below --dir, in one step, and writes it down.
place() {
  [ -d "$dir/${2%/*}" ] || mkdir -p "$dir/${2%/*}"
  cp "$1" "$dir/$2.new"
  mv -f "$dir/$2.new" "$dir/$2"
  echo "$2" >>"$temporary/installed"
}

install() {
  [ -n "$FROM" ] || fail 'expected --from: the URL or the directory of a release'
  temporary=$(mktemp -d)
  trap 'rm -rf "$temporary"' EXIT
  system=$(name_system)
  get SHA256SUMS
  if [ -n "$key" ]; then check_signature "$key"; fi
  kind=tar.gz
  if command -v zstd >/dev/null && [ "$(uname -s)" = Linux ]; then kind=tar.zst; fi
  archive=$(sed -n "s/^[0-9a-f]*  \(gateway-.*-$system\.$kind\)$/\1/p" "$temporary/SHA256SUMS")
  [ -n "$archive" ] || fail "the release has no program for $system"
  get "$archive"
  check_sum "$archive"
  case $kind in
    tar.zst) zstd -dcq "$temporary/$archive" ;;
    *) gzip -dc "$temporary/$archive" ;;
  esac | tar -xof - -C "$temporary"
  files=$temporary/${archive%.tar.*}
  "$files/gateway" --version >/dev/null || fail 'the program does not run on this system'
  mkdir -p "$dir" && dir=$(cd "$dir" && pwd)
  # Pages of an older version may have other names; its program runs until it is replaced.
  remove_listed bin/gateway
  place "$files/gateway" bin/gateway
  for page in "$files"/man/man1/*; do place "$page" "share/man/man1/${page##*/}"; done
  place "$files/completions/gateway.bash" share/bash-completion/completions/gateway
  place "$files/completions/_gateway" share/zsh/site-functions/_gateway
  place "$files/completions/gateway.fish" share/fish/vendor_completions.d/gateway.fish
  for file in LICENSE LICENSES-OF-PACKAGES.txt; do place "$files/$file" "share/doc/gateway/$file"; done
  echo "$list" >>"$temporary/installed"
  cp "$temporary/installed" "$dir/$list"
  echo "Installed gateway $("$dir/bin/gateway" --version) in $dir/bin"
  case :$PATH: in
    *:"$dir/bin":*) ;;
    *) echo "Add it to your PATH: export PATH=\"$dir/bin:\$PATH\"" ;;
  esac
  echo "To remove it: (cd '$dir' && xargs rm -f <$list)"
}

# Read whole before anything runs: half a download does nothing.
main() {
  umask 022
  dir=${HOME:-}/.local
  key=''
  list=share/doc/gateway/installed
  action=install
  while [ $# -gt 0 ]; do
    case $1 in
      --from) FROM=$2 && shift 2 ;;
      --dir) dir=$2 && shift 2 ;;
      --key) key=$2 && shift 2 ;;
      --uninstall) action=uninstall && shift ;;
      --help) usage && exit ;;
      *) usage >&2 && exit 2 ;;
    esac
  done
  $action
}

main "$@"
