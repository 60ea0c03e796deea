import { networkInterfaces } from 'node:os';
import { cidrOf, networkOf, overlap } from '../../domain/networks.ts';
import type { NetworkItem } from './answers.ts';

/** What has addresses of a network that is to be made, of the machine or of the engine; undefined where nothing has. */
export function takenBy(
  cidr: string,
  networks: readonly NetworkItem[],
  interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces(),
): string | undefined {
  const wanted = cidrOf(cidr);
  if (!wanted) return undefined;
  const isTaken = (text: string | null | undefined) => {
    const network = networkOf(text ?? '');
    return network !== undefined && overlap(wanted, network);
  };
  for (const { Name, IPAM } of networks)
    for (const { Subnet } of IPAM?.Config ?? [])
      if (isTaken(Subnet)) return `the network ${Name} (${Subnet}) of the engine`;
  for (const [name, addresses] of Object.entries(interfaces))
    for (const { cidr: own } of addresses ?? [])
      if (isTaken(own)) return `the interface ${name} (${own}) of this machine`;
  return undefined;
}

/** That the network has other addresses than the settings say; it stays, since containers are on it. */
export function otherAddresses({ Name, IPAM }: NetworkItem, cidr: string | undefined): string | undefined {
  const subnets = (IPAM?.Config ?? []).flatMap(({ Subnet }) => Subnet ?? []);
  if (cidr === undefined || subnets.length === 0 || subnets.includes(cidr)) return undefined;
  return `bridgeCidr ${cidr} has no effect: the network ${Name} has ${subnets.join(', ')} and is never changed; it is made with other addresses once it was removed in the engine`;
}
