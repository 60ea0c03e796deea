import { cidrOf, networkOf, overlap } from '../../../domain/networks.ts';
import type { PodNetwork } from './network.ts';

/** Chains that the CNI plugins share: they go where no network of the machine uses them any more. */
const SHARED = {
  ports: ['CNI-HOSTPORT-DNAT', 'CNI-HOSTPORT-SETMARK', 'CNI-HOSTPORT-MASQ'],
  firewall: ['CNI-FORWARD', 'CNI-ADMIN'],
} as const;

/**
 * The input of `iptables-restore --noflush` that takes away what the CNI plugins left for a network, from the output of
 * `iptables-save`. Empty where nothing is left. Rules of other networks and of people stay.
 */
export function rulesToRemove(saved: string, network: Pick<PodNetwork, 'name' | 'subnet'>): string {
  return tablesIn(saved)
    .flatMap(({ name, rules, chains }) => {
      const changes = changesOf(rules, chains, network);
      return changes.length > 0 ? [`*${name}\n${changes.join('\n')}\nCOMMIT\n`] : [];
    })
    .join('');
}

interface Rules {
  name: string;
  chains: string[];
  /** as they would be added: `-A CHAIN ...` */
  rules: string[];
}

function tablesIn(saved: string): Rules[] {
  const tables: Rules[] = [];
  for (const line of saved.split('\n')) {
    if (line.startsWith('*')) tables.push({ name: line.slice(1).trim(), chains: [], rules: [] });
    const table = tables.at(-1);
    if (line.startsWith(':')) table?.chains.push(line.slice(1).split(' ')[0] as string);
    if (line.startsWith('-A ')) table?.rules.push(line);
  }
  return tables;
}

function changesOf(
  rules: readonly string[],
  chains: readonly string[],
  network: Pick<PodNetwork, 'name' | 'subnet'>,
): string[] {
  const shared: readonly string[] = Object.values(SHARED).flat();
  const ours = rules.filter((rule) => isOf(rule, network));
  // A chain that only rules of this network lead to is one container's.
  const own = chains.filter(
    (chain) => !shared.includes(chain) && chain.startsWith('CNI-') && ours.some(leadsTo(chain)),
  );
  const left = rules.filter((rule) => !ours.includes(rule) && !own.includes(chainOf(rule)));
  const unused = chains.filter((chain) => shared.includes(chain) && isUnused(chain, left));
  const jumps = left.filter((rule) => !unused.includes(chainOf(rule)) && unused.some((chain) => leadsTo(chain)(rule)));
  const outside = ours.filter((rule) => !own.includes(chainOf(rule)) && !unused.includes(chainOf(rule)));
  const gone = [...own, ...unused];
  return [
    ...[...outside, ...jumps].map((rule) => rule.replace(/^-A /, '-D ')),
    ...gone.map((chain) => `-F ${chain}`),
    ...gone.map((chain) => `-X ${chain}`),
  ];
}

/** Whether no container needs a shared chain: the ports of none are left, or nothing but the way to the rules of people. */
function isUnused(chain: string, left: readonly string[]): boolean {
  const inChain = (name: string) => left.filter((rule) => chainOf(rule) === name);
  return (SHARED.ports as readonly string[]).includes(chain)
    ? inChain('CNI-HOSTPORT-DNAT').length === 0
    : inChain('CNI-ADMIN').length === 0 && inChain('CNI-FORWARD').every(leadsTo('CNI-ADMIN'));
}

const chainOf = (rule: string) => rule.split(' ')[1] as string;

const leadsTo = (chain: string) => (rule: string) => rule.endsWith(` -j ${chain}`);

/** A rule of the network names it in its comment, or is the firewall's for one of its addresses. */
function isOf(rule: string, { name, subnet }: Pick<PodNetwork, 'name' | 'subnet'>): boolean {
  if (rule.includes(`name: \\"${name}\\" id: `)) return true;
  if (chainOf(rule) !== 'CNI-FORWARD') return false;
  const [, address] = / -[sd] ([0-9.]{7,15}\/32) /.exec(rule) ?? [];
  const [at, all] = [address && networkOf(address), cidrOf(subnet)];
  return Boolean(at && all && overlap(all, at));
}
