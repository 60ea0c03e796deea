import { isIP } from 'node:net';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import { hostnameOf } from './sandbox-config.ts';

/** A container that runs on the network of containers. */
export interface Neighbour {
  id: string;
  ip: string;
  aliases: readonly string[];
}

interface HostsContext {
  id: string;
  spec: Pick<ContainerSpec, 'extraHosts' | 'fields'>;
  /** the machine as containers see it */
  gateway: string | undefined;
  /** those that run on the network, this container among them */
  neighbours: readonly Neighbour[];
}

const LOCAL = ['127.0.0.1\tlocalhost', '::1\tlocalhost ip6-localhost ip6-loopback'];
/** The word for the machine itself. */
const HOST_GATEWAY = 'host-gateway';

/**
 * The text of /etc/hosts of a container. It has the names of all containers of the network: there is no name service, which
 * would have to run while the agent does not. Pure.
 */
export function hostsText({ id, spec, gateway, neighbours }: HostsContext): string {
  const isOnMachine = spec.fields.hostNetworkMode === true;
  const own = neighbours.find((each) => each.id === id);
  const machine = isOnMachine ? '127.0.0.1' : gateway;
  const addressOf = (address: string) => {
    if (address === HOST_GATEWAY) return machine;
    return isIP(address) ? address : neighbours.find(({ aliases }) => aliases.includes(address))?.ip;
  };
  const extra = spec.extraHosts.flatMap(({ name, address }) => lineOf(addressOf(address), name));
  const names = isOnMachine ? [] : neighbours.flatMap(({ ip, aliases }) => lineOf(ip, ...aliases));
  return `${[...LOCAL, ...extra, ...lineOf(own?.ip, hostnameOf(id)), ...names].join('\n')}\n`;
}

const lineOf = (address: string | undefined, ...names: string[]) =>
  address && names.length > 0 ? [`${address}\t${names.join(' ')}`] : [];

/** The name servers and search domains of a machine, without those that only the machine itself reaches. Pure. */
export function resolversOf(text: string): { nameServers: string[]; searches: string[] } {
  const words = text.split('\n').map((line) => line.trim().split(/\s+/));
  const of = (keyword: string) => words.filter(([first]) => first === keyword).flatMap(([, ...rest]) => rest);
  return {
    nameServers: of('nameserver').filter((address) => isIP(address) > 0 && !/^(127\.|::1$)/.test(address)),
    searches: of('search'),
  };
}
