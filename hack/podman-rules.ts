import { BlockList } from 'node:net';

/** A rule of a chain, as iptables-save writes it. */
interface Rule {
  chain: string;
  text: string;
}

interface Table {
  name: string;
  chains: string[];
  rules: Rule[];
}

/** The chains of one network: by its name, so networks of one name have the same ones, whichever podman made them. */
const OF_NETWORK = /^NETAVARK-(DN-)?[\dA-F]{13}$/;
/** The chain that leads a published port to the chain of its network. */
const PUBLISHED = 'NETAVARK-HOSTPORT-DNAT';

const option = (rule: Rule, name: string): string | undefined =>
  new RegExp(`(?:^| )${name} (\\S+)`).exec(rule.text)?.[1];
const target = (rule: Rule) => option(rule, '-j');
const port = (rule: Rule) => `${option(rule, '-p')} ${option(rule, '--dport')}`;
const isOfPodman = (rule: Rule) => rule.chain.startsWith('NETAVARK') || target(rule)?.startsWith('NETAVARK');

/**
 * Lines for `iptables-restore --noflush` that remove the rules of podmans for subnets without an address of this machine. Of a chain that another
 * network has as well, its rules stay; a chain to which no rule leads goes.
 */
export function unusedRules(saved: string, addresses: readonly string[]): string[] {
  const tables = tablesOf(saved);
  const subnets = new Set(tables.flatMap(({ rules }) => rules.filter(isOfPodman).flatMap(subnetsOf)));
  const unused = new BlockList();
  const names = new Set<string>();
  for (const subnet of subnets) {
    const [network = '', bits] = subnet.split('/');
    const own = new BlockList();
    own.addSubnet(network, Number(bits));
    if (addresses.some((address) => own.check(address))) continue;
    unused.addSubnet(network, Number(bits));
    names.add(subnet);
  }
  return tables.flatMap(({ name, chains, rules }) => {
    const removed = new Set(rules.filter((rule) => isOfPodman(rule) && subnetsOf(rule).some((one) => names.has(one))));
    const forwards = rules.filter((rule) => OF_NETWORK.test(rule.chain) && target(rule) === 'DNAT');
    const isUnused = (rule: Rule) => unused.check(option(rule, '--to-destination')?.split(':')[0] ?? '');
    for (const forward of forwards.filter(isUnused)) {
      removed.add(forward);
      const isShared = (one: Rule) => one.chain === forward.chain && port(one) === port(forward) && !isUnused(one);
      if (forwards.some(isShared)) continue;
      const leadsThere = ({ chain, ...rule }: Rule) =>
        chain === forward.chain || (chain === PUBLISHED && target({ chain, ...rule }) === forward.chain);
      for (const rule of rules) if (leadsThere(rule) && port(rule) === port(forward)) removed.add(rule);
    }
    const left = new Set(rules.filter((rule) => !removed.has(rule)).map(target));
    const gone = chains.filter((chain) => OF_NETWORK.test(chain) && !left.has(chain));
    const lines = [
      ...[...removed].filter(({ chain }) => !gone.includes(chain)).map(({ chain, text }) => `-D ${chain} ${text}`),
      ...gone.flatMap((chain) => [`-F ${chain}`]),
      ...gone.flatMap((chain) => [`-X ${chain}`]),
    ];
    return lines.length === 0 ? [] : [`*${name}`, ...lines, 'COMMIT'];
  });
}

/** The subnets that a rule is for; an address of its own is none. */
function subnetsOf(rule: Rule): string[] {
  return ['-s', '-d']
    .map((name) => option(rule, name))
    .filter((one) => one !== undefined && /^[\d.]+\/\d+$/.test(one))
    .filter((one): one is string => !one?.endsWith('/32') && !one?.startsWith('224.') && !one?.startsWith('127.'));
}

function tablesOf(saved: string): Table[] {
  const tables: Table[] = [];
  for (const line of saved.split('\n')) {
    const [word = '', ...rest] = line.split(' ');
    if (word.startsWith('*')) tables.push({ name: word.slice(1), chains: [], rules: [] });
    else if (word.startsWith(':')) tables.at(-1)?.chains.push(word.slice(1));
    else if (word === '-A') tables.at(-1)?.rules.push({ chain: rest[0] ?? '', text: rest.slice(1).join(' ') });
  }
  return tables;
}
