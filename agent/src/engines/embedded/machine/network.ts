import { addressText, type Cidr, cidrOf, networkOf, overlap } from '../../../domain/networks.ts';

/** The network that all containers of a private containerd share. */
export interface PodNetwork {
  /** of the network and of its bridge */
  name: string;
  /** `10.187.0.0/24` */
  subnet: string;
  /** the machine as its containers see it: the first address of the subnet */
  gateway: string;
}

/** Subnets that a machine seldom has, each with room for 253 containers. */
const SUBNETS = Array.from({ length: 64 }, (_, at) => `10.187.${at}.0/24`);

/**
 * The network of the containers. `asked` is the setting bridgeCidr, `former` the subnet of the last start, `isMade` whether
 * its bridge is there: containers have its addresses, and no plugin changes them. Without both, the first subnet that
 * overlaps with no network of the machine. The asked network may have addresses of a route, as a default route of a tunnel
 * has them all, but not of an interface. Throws an error that names the network that is in the way.
 */
export function podNetwork(name: string, { asked, former, addresses, routes, isMade }: AskedNetwork): PodNetwork {
  const inTheWay = (subnet: Cidr, networks: readonly string[]) =>
    networks.find((text) => {
      const taken = networkOf(text);
      return taken && overlap(taken, subnet);
    });
  const isFree = (text: string) => inTheWay(cidrOf(text) as Cidr, [...addresses, ...routes]) === undefined;
  const subnet = (isMade ? (former ?? asked) : (asked ?? former)) ?? SUBNETS.find(isFree);
  const cidr = subnet === undefined ? undefined : cidrOf(subnet);
  if (!subnet || !cidr)
    throw new Error('every network that containers could have overlaps with one of this machine: set bridgeCidr');
  const conflict = subnet === former ? undefined : inTheWay(cidr, addresses);
  if (conflict !== undefined)
    throw new Error(`bridgeCidr ${subnet} overlaps with ${conflict} of this machine: set another one`);
  return { name, subnet, gateway: addressText(cidr.base + 1) };
}

interface AskedNetwork {
  asked?: string | undefined;
  former?: string | undefined;
  /** of the interfaces of the machine, without its bridge */
  addresses: readonly string[];
  routes: readonly string[];
  isMade: boolean;
}

/**
 * The list of CNI plugins that makes the network: a bridge of its own, addresses that are recorded in `addresses`, ports of
 * the machine. A firewall of the machine that drops forwarded packets, as docker sets one up, lets the packets of containers pass.
 */
export function networkList({ name, subnet }: PodNetwork, addresses: string): object {
  const bridge = {
    ...{ type: 'bridge', bridge: name, isDefaultGateway: true, ipMasq: true, hairpinMode: true, mtu: 0 },
    ipam: { type: 'host-local', dataDir: addresses, ranges: [[{ subnet }]] },
  };
  const ports = { type: 'portmap', capabilities: { portMappings: true }, snat: true };
  return { cniVersion: '1.0.0', name, plugins: [bridge, ports, { type: 'firewall', backend: 'iptables' }] };
}

/** The subnet of a list of CNI plugins as networkList makes it; undefined for any other text. */
export function subnetIn(text: string | undefined): string | undefined {
  const [, subnet] = /"subnet": ?"([0-9./]{9,18})"/.exec(text ?? '') ?? [];
  return subnet;
}
