import { execFileSync } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { exists, listDirectory, readText, writeDurably } from '../../../machine/disk.ts';
import { containerdConfig, containerdVersionIn, knowsCdi } from './config.ts';
import { makeContainerdFolders } from './folders.ts';
import { networkList, podNetwork, subnetIn } from './network.ts';
import { type ContainerdParts, containerdParts, type FoundPrograms, PLUGIN_FOLDERS, PROGRAM_FOLDERS } from './parts.ts';
import { PAUSE_IMAGE } from './pause-image.ts';
import { containerdPlaces, type PlacesOptions } from './places.ts';
import { networksIn } from './routes.ts';
import type { StartedContainerd } from './started.ts';

export interface PrepareOptions extends PlacesOptions {
  /** the setting bridgeCidr */
  bridgeCidr?: string | undefined;
  /** absolute paths of programs that come before the programs of the machine */
  programs?: readonly string[];
}

const SECOND = 1000;

/** The programs and CNI plugins of this machine. */
export function foundPrograms(): FoundPrograms {
  const inside = (folders: readonly string[]) =>
    folders.filter(exists).flatMap((folder) => listDirectory(folder).map((name) => join(folder, name)));
  return { programs: inside(PROGRAM_FOLDERS), plugins: inside(PLUGIN_FOLDERS) };
}

/**
 * Writes what a private containerd is started with: its settings, its network, and the record of both. Throws an error that
 * names the packages that are missing, or the setting that cannot be.
 */
export function prepareContainerd(options: PrepareOptions): StartedContainerd & { command: readonly string[] } {
  const { bridgeCidr, systemd } = options;
  const places = containerdPlaces(options);
  const parts = partsOf(options.programs);
  const text = execFileSync(parts.containerd, ['--version'], { encoding: 'utf8', timeout: 10 * SECOND });
  const version = containerdVersionIn(text);
  if (!version) throw new Error(`${parts.containerd} --version has no version: ${text.slice(0, 200)}`);

  makeContainerdFolders(places);
  const listFile = join(places.networks, '10-containers.conflist');
  const network = podNetwork(places.network, {
    asked: bridgeCidr,
    former: subnetIn(readText(listFile)),
    ...usedNetworks(places.network),
    isMade: exists(join('/sys/class/net', places.network)),
  });
  writeDurably(listFile, JSON.stringify(networkList(network, join(places.root, 'addresses')), undefined, 2), 0o644);
  writeDurably(
    places.config,
    containerdConfig({
      version,
      places,
      handlers: parts.handlers,
      plugins: parts.plugins,
      systemd,
      pauseImage: PAUSE_IMAGE,
    }),
    0o644,
  );
  const { root, state, registries, cgroupParent } = places;
  const started: StartedContainerd = {
    ...{ version: version.text, root, state, registries, cgroupParent, systemd, network },
    handlers: parts.handlers.map(({ name }) => name),
    cdi: knowsCdi(version),
    pauseImage: PAUSE_IMAGE,
  };
  writeDurably(places.started, JSON.stringify(started), 0o644);
  return { ...started, command: [parts.containerd, '--config', places.config] };
}

function partsOf(programs: readonly string[] = []): ContainerdParts {
  const found = foundPrograms();
  const parts = containerdParts({ ...found, programs: [...programs, ...found.programs] });
  if ('missing' in parts) throw new Error(`install ${parts.missing.join(', ')} first`);
  return parts;
}

/** The networks of this machine but the one of the containers themselves. */
function usedNetworks(bridge: string): { addresses: string[]; routes: string[] } {
  const addresses = Object.entries(networkInterfaces()).flatMap(([name, each]) =>
    name === bridge ? [] : (each ?? []).flatMap(({ cidr, family }) => (family === 'IPv4' && cidr ? [cidr] : [])),
  );
  const routes = (readText('/proc/net/route') ?? '').split('\n').filter((line) => !line.startsWith(`${bridge}\t`));
  return { addresses, routes: networksIn(routes.join('\n')) };
}
