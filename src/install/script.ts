import type { Packages } from './packages.ts';

/** What dpkg and `uname -m` say of each architecture. */
const MACHINES = { amd64: 'amd64|x86_64', arm64: 'arm64|aarch64', armv7: 'armhf|armv7l|armv8l' } as const;

/** The program that a controller without packages answers with: whoever types the line learns what to do instead. */
export const NO_PACKAGES_SCRIPT = `#!/bin/sh
cat >&2 <<'END'
skerry-agent: this controller has no packages of the agent (releasesVolume or releasesUrl of its chart).
Unpack the archive of a release on this machine, start the agent, and give it the join string:
  tar -xzf skerry-agent-<version>-linux-<architecture>.tar.gz -C /
  systemctl daemon-reload && systemctl enable --now skerry-agent
  SKERRY_JOIN="<join string>" skerry-agent provision
END
exit 1
`;

/** The program that installs the agent: for people to read before they run it as root. `url`: where the packages are. */
export function installScript(url: string, { version, packages }: Packages): string {
  const cases = Object.entries(packages).map(
    ([architecture, { deb, archive }]) => `  ${MACHINES[architecture as keyof typeof MACHINES]})
    deb='${deb.file}' deb_digest='${deb.sha256}'
    archive='${archive.file}' archive_digest='${archive.sha256}'
    ;;`,
  );
  return `#!/bin/sh
# Installs the Skerry agent ${version}, or upgrades the one that is here. With a join string in SKERRY_JOIN, the machine
# becomes a node. With SKERRY_ALLOW_DOWNGRADE=1 it also takes the place of a newer one.
set -eu

url='${url}'
version='${version}'

fail() {
  echo "skerry-agent: $1" >&2
  exit 1
}

# get <file>: into the folder, from where an earlier attempt ended
get() {
  if command -v curl >/dev/null; then
    curl -fsSL --retry 10 --retry-max-time 300 -C - -o "$folder/$1" "$url/$1"
  else
    wget -q -c -O "$folder/$1" "$url/$1"
  fi
}

# size <file>: its bytes in the folder
size() {
  if [ -e "$folder/$1" ]; then wc -c <"$folder/$1"; else echo 0; fi
}

# fetch <file> <digest>: only with this content. The controller ends a download when others wait for their turn.
fetch() {
  until
    before=$(size "$1")
    get "$1"
  do
    [ "$(size "$1")" -gt "$before" ] || fail "$url/$1 cannot be fetched"
  done
  echo "$2  $folder/$1" | sha256sum -c >/dev/null || fail "$1 does not have the digest $2"
}

# A former list of packages must not bring back the holes of a former agent. \`current\` leads to what runs, also after an
# update of itself. A tilde makes 1.0.0-rc.1 older than 1.0.0.
refuse_downgrade() {
  installed=$(readlink /opt/skerry-agent/current) || return 0
  installed=\${installed##*/}
  newest=$(printf '%s\\n' "$installed" "$version" | tr - '~' | sort -V | tail -n 1 | tr '~' -)
  [ "$newest" = "$version" ] ||
    fail "the agent $installed is here, and $version is older; with SKERRY_ALLOW_DOWNGRADE=1 it is installed all the same"
}

# All of it is read before any of it runs: a download that breaks off does nothing.
main() {
  # It goes to the agent alone, and into no list of processes.
  join=\${SKERRY_JOIN:-\${1:-}}
  unset SKERRY_JOIN
  [ "$(id -u)" = 0 ] || fail 'run this as root'
  [ -d /run/systemd/system ] || fail 'this machine does not run systemd'
  # A kernel of 64 bits may run programs of 32 bits only.
  machine=$(dpkg --print-architecture 2>/dev/null) || machine=$(uname -m)
  [ "$(uname -m)" != armv6l ] || fail 'this machine is an armv6l, and the agent needs an armv7 or newer'
  case $machine in
${cases.join('\n')}
  *) fail "there is no package for $machine" ;;
  esac
  downgrades=
  if [ "\${SKERRY_ALLOW_DOWNGRADE:-}" = 1 ]; then downgrades=--allow-downgrades; else refuse_downgrade; fi
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  chmod 755 "$folder"

  if command -v apt-get >/dev/null; then
    fetch "$deb" "$deb_digest"
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $downgrades -o Dpkg::Options::=--force-confold "$folder/$deb" >&2
  else
    fetch "$archive" "$archive_digest"
    # Directories that are there stay as they are, also where they are links.
    options=
    ! tar --version 2>/dev/null | grep -q GNU || options='--no-overwrite-dir --keep-directory-symlink'
    [ ! -e /etc/skerry-agent/config.yaml ] || options="$options --exclude=etc/skerry-agent/config.yaml"
    tar -xzf "$folder/$archive" -C / $options
    systemctl daemon-reload
    systemctl enable -q skerry-agent
    systemctl restart skerry-agent
  fi
  systemctl start skerry-agent
  [ -z "$join" ] || SKERRY_JOIN=$join skerry-agent provision
}

main "$@"
`;
}
