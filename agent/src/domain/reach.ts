import { BlockList, isIP } from 'node:net';
import type { Policy } from './policy.ts';
import { canonicalHost } from './reference.ts';

/**
 * Where an address lies, from what everyone reaches to what only this machine reaches: `private` networks (RFC 1918, RFC 4193,
 * RFC 6598), the `machine` itself (loopback and the addresses of its interfaces), and its `link`, where clouds
 * answer with the credentials of the machine.
 */
const PLACES = ['public', 'private', 'machine', 'link'] as const;
export type AddressPlace = (typeof PLACES)[number];

/** IPv4 prefixes of each place; IPv6 addresses that carry an IPv4 address lie where that lies. */
const IPV4: Readonly<Record<Exclude<AddressPlace, 'public'>, readonly [string, number][]>> = {
  private: [
    ['10.0.0.0', 8],
    ['100.64.0.0', 10],
    ['172.16.0.0', 12],
    ['192.0.0.0', 24],
    ['192.168.0.0', 16],
    ['198.18.0.0', 15],
  ],
  machine: [
    ['0.0.0.0', 8],
    ['127.0.0.0', 8],
  ],
  // The single addresses are services of clouds for the machine alone; multicast and reserved ones are no registry.
  link: [
    ['100.100.100.200', 32],
    ['168.63.129.16', 32],
    ['169.254.0.0', 16],
    ['192.0.0.192', 32],
    ['224.0.0.0', 3],
  ],
};
const IPV6: typeof IPV4 = {
  private: [
    ['fc00::', 7],
    ['fec0::', 10],
  ],
  machine: [
    ['::', 128],
    ['::1', 128],
  ],
  link: [
    ['fd00:ec2::254', 128],
    ['fe80::', 10],
    ['ff00::', 8],
  ],
};

const LISTS = Object.fromEntries(
  (['private', 'machine', 'link'] as const).map((place) => {
    const list = new BlockList();
    for (const [prefix, bits] of IPV4[place]) {
      // IPv4-mapped addresses are found by the IPv4 prefix.
      list.addSubnet(prefix, bits, 'ipv4');
      // NAT64 (RFC 6052, RFC 8215), IPv4-compatible (RFC 4291) and 6to4 (RFC 3056); `::` and `::1` are themselves.
      list.addSubnet(`64:ff9b::${prefix}`, 96 + bits, 'ipv6');
      list.addSubnet(`64:ff9b:1::${prefix}`, 96 + bits, 'ipv6');
      if (!prefix.startsWith('0.')) list.addSubnet(`::${prefix}`, 96 + bits, 'ipv6');
      list.addSubnet(`2002:${hexOf(prefix)}::`, 16 + bits, 'ipv6');
    }
    for (const [prefix, bits] of IPV6[place]) list.addSubnet(prefix, bits, 'ipv6');
    return [place, list];
  }),
) as Record<Exclude<AddressPlace, 'public'>, BlockList>;

function hexOf(ipv4: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = ipv4.split('.').map(Number);
  return [a * 256 + b, c * 256 + d].map((part) => part.toString(16)).join(':');
}

/** Where an address lies, for a machine with these addresses. Pure. */
export function placeOf(address: string, ownAddresses: readonly string[]): AddressPlace {
  const plain = address.replace(/%.*$/s, '');
  const family = isIP(plain) === 6 ? 'ipv6' : 'ipv4';
  if (LISTS.link.check(plain, family)) return 'link';
  if (LISTS.machine.check(plain, family)) return 'machine';
  const own = new BlockList();
  for (const each of ownAddresses) {
    const bare = each.replace(/%.*$/s, '');
    if (isIP(bare)) own.addAddress(bare, isIP(bare) === 6 ? 'ipv6' : 'ipv4');
  }
  if (own.check(plain, family)) return 'machine';
  return LISTS.private.check(plain, family) ? 'private' : 'public';
}

/** What bounds where the agent goes for a registry. */
export interface ReachLimits {
  policy: Pick<Policy, 'registries' | 'storage' | 'hostNetwork'>;
  /** the addresses of this machine's interfaces, as they are now */
  ownAddresses(): readonly string[];
}

/**
 * Where the agent goes for one registry: to the registry's own host, and to the hosts that it leads to by redirects and by
 * the name of its token service. Each host is judged by its name and by the addresses that are connected to
 * (docs/decisions/2026-11-23-where-a-registry-leads.md). A host that the policy names in full may be anywhere.
 */
export class Reach {
  readonly #host: string;
  readonly #limits: ReachLimits;
  /** the furthest inside that the registry's own host was seen */
  #own: AddressPlace = 'public';

  constructor(host: string, limits: ReachLimits) {
    this.#host = host;
    this.#limits = limits;
  }

  /** Why the agent may not ask this host, whatever its address, in one sentence, or undefined. */
  hostRefusal(host: string): string | undefined {
    const { registries, storage = [] } = this.#limits.policy;
    const asked = plainHost(host);
    if (
      !registries ||
      asked === plainHost(this.#host) ||
      this.names(asked) ||
      storage.some((each) => covers(each, asked))
    )
      return undefined;
    return `the registry ${this.#host} leads to ${host}, which policy.yaml of the machine names neither in "registries" nor in "storage"`;
  }

  /** Why the agent may not connect to this address of a host, in one sentence, or undefined. */
  addressRefusal(host: string, address: string): string | undefined {
    const { policy, ownAddresses } = this.#limits;
    const asked = plainHost(host);
    const place = placeOf(address, ownAddresses());
    const isMachinesOwn = asked === plainHost(this.#host);
    const furthest = isMachinesOwn ? (policy.hostNetwork ? 'machine' : 'private') : this.#own;
    if (!this.names(asked) && PLACES.indexOf(place) > PLACES.indexOf(furthest)) {
      const whose = isMachinesOwn ? `the registry ${host}` : `the registry ${this.#host} leads to ${host}, which`;
      return `${whose} has the address ${address}, ${WHAT[place]}; only policy.yaml of the machine can allow that, with "${asked}" in "${isMachinesOwn ? 'registries' : 'storage'}"`;
    }
    if (isMachinesOwn && PLACES.indexOf(place) > PLACES.indexOf(this.#own)) this.#own = place;
    return undefined;
  }

  /** Whether the policy names this host in full, so that it may be anywhere. */
  names(host: string): boolean {
    const { registries = [], storage = [] } = this.#limits.policy;
    return [...registries, ...storage].some((each) => plainHost(each) === plainHost(host));
  }
}

const WHAT: Readonly<Record<AddressPlace, string>> = {
  public: 'a public one',
  private: 'one of a private network',
  machine: 'one of the machine itself',
  link: 'one that only the machine reaches',
};

/** One spelling of a host, as URLs have it: names in ASCII, addresses in their short form, without the port of either scheme. */
const plainHost = (host: string) => canonicalHost(URL.parse(`http://${host}`)?.host ?? host);

/** Whether a pattern of `storage` covers a host: `*` all, `*.example.com` the hosts below a domain. */
function covers(pattern: string, host: string): boolean {
  return pattern === '*' || (pattern.startsWith('*.') && host.endsWith(canonicalHost(pattern.slice(1))));
}
