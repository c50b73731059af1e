#!/usr/bin/env bash
# Bring Debian packages in: `debian_packages.sh NAME...`, or all of debian-packages.txt without arguments.
# As root missing ones are installed; otherwise the command to run is printed. Fails when a required one is missing.
# Quick when all are present; starts no service; elsewhere than on Debian and its kin it does nothing.
set -euo pipefail
list="$(dirname "$0")/debian-packages.txt"

main() {
  if ! command -v apt-get >/dev/null; then
    echo "not a Debian system: see scripts/debian-packages.txt for the programs that the tests use" >&2
    return 0
  fi
  local missing required
  mapfile -t missing < <(only_missing "${@:-$(named '.*')}")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -eq 0 ] && install_packages "${missing[@]}"; then
    return 0
  fi
  echo "missing Debian packages; install them with: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  mapfile -t required < <(only_missing "${@:-$(named required)}")
  [ ${#required[@]} -eq 0 ] || return 1
  echo "they are optional: going on without" >&2
}

named() { awk -v need="^$1\$" '!/^#/ && $2 ~ need { print $1 }' "$list"; }

only_missing() {
  local name
  for name in $*; do
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || echo "$name"
  done
}

install_packages() {
  [ -e /usr/sbin/policy-rc.d ] || no_services
  apt_install "$@" || { apt-get update </dev/null && apt_install "$@"; }
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

# Debian starts a service when its package is installed, unless this file says no.
no_services() {
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
}

main "$@"
