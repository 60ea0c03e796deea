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
 * The network of the containers. `asked` is the setting bridgeCidr, `former` the subnet of the last start: containers have
 * its addresses. Without both, the first subnet that overlaps with no network of the machine. Undefined where all do.
 */
export function podNetwork(
  name: string,
  { asked, former, used }: { asked?: string | undefined; former?: string | undefined; used: readonly string[] },
): PodNetwork | undefined {
  const taken = used.flatMap((text) => networkOf(text) ?? []);
  const subnet = asked ?? former ?? SUBNETS.find((text) => !taken.some((each) => overlap(each, cidrOf(text) as Cidr)));
  const cidr = subnet === undefined ? undefined : cidrOf(subnet);
  if (!subnet || !cidr) return undefined;
  return { name, subnet, gateway: addressText(cidr.base + 1) };
}

/**
 * The list of CNI plugins that makes the network: a bridge of its own, addresses that are recorded in `addresses`, ports of
 * the machine. A firewall of the machine that drops what is forwarded, as docker sets one up, lets its packets pass.
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
