import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { processStartTime } from '../hack/process.ts';

const run = promisify(execFile);
const NAMES = '/etc/netns';
const PREFIX = 'skerry-';

/**
 * A network of its own for a machine: a network namespace that a veth pair connects to this one, with its own name
 * resolution. It can lose packets, so that TCP has to retransmit them.
 */
export interface EdgeNetwork extends AsyncDisposable {
  /** Prefix of a command that is to run inside. */
  readonly command: readonly string[];
  /** Two addresses of this machine, as seen from inside. */
  readonly outside: readonly [string, string];
  /** The address inside, as seen from this machine. */
  readonly inside: string;
  /** Takes the addresses of IPv4 away; returns the address of this machine and the one inside. */
  onlyIPv6(): Promise<[outside: string, inside: string]>;
  /** Connects the network, or takes the cable out. */
  plug(isIn: boolean): Promise<void>;
  /** Loses this share of the packets in each direction, 0 to 1. */
  lose(share: number): Promise<void>;
  /** Sets what names resolve to inside; others do not resolve, as without a name server. */
  name(hosts: Record<string, string>): void;
  /** Bytes sent and received so far, all headers included, seen from inside. */
  bytes(): { sent: number; received: number };
}

/** Needs root, `ip` and `iptables` (Debian: iproute2, iptables). */
export async function createNetwork(): Promise<EdgeNetwork> {
  if (process.getuid?.() !== 0) throw new Error('network namespaces need root: run these tests as root');
  await removeLeftovers();
  const id = randomInt(36 ** 6).toString(36);
  // The interface name identifies the owner: a later run removes what a killed run left.
  const name = `${PREFIX}${process.pid}-${id}`;
  const cable = `sk${id}`;
  // 198.18.0.0/15 is reserved for benchmarks of networks (RFC 2544), so it is not in use.
  const block = randomInt(2 ** 14) * 8;
  const address = (host: number) => `198.${18 + (block >> 16)}.${(block >> 8) & 255}.${(block & 255) + host}`;
  const folder = join(NAMES, name);
  const [first, second, inner] = [address(1), address(2), address(3)] as const;
  const ip = (...args: string[]) => run('ip', args);
  const inside = (...args: string[]) => run('ip', ['netns', 'exec', name, ...args]);

  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'hosts'), '127.0.0.1 localhost\n');
  // No server listens there, so a lookup fails at once.
  writeFileSync(join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n');
  await ip('netns', 'add', name);
  await ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
  for (const each of [first, second]) await ip('address', 'add', `${each}/29`, 'dev', cable);
  await ip('link', 'set', cable, 'up');
  await inside('ip', 'link', 'set', 'lo', 'up');
  await inside('ip', 'address', 'add', `${inner}/29`, 'dev', 'eth0');
  await inside('ip', 'link', 'set', 'eth0', 'up');

  const count = (what: string) => Number(readFileSync(`/sys/class/net/${cable}/statistics/${what}_bytes`, 'utf8'));
  return {
    command: ['ip', 'netns', 'exec', name],
    outside: [first, second],
    inside: inner,
    async onlyIPv6() {
      // Unique local addresses (RFC 4193); the block is the same as for IPv4.
      const group = (block / 8).toString(16);
      const [there, here] = [`fd53:6b65::${group}:1`, `fd53:6b65::${group}:2`] as const;
      await ip('address', 'add', `${there}/112`, 'dev', cable, 'nodad');
      await inside('ip', '-4', 'address', 'flush', 'dev', 'eth0');
      await inside('ip', 'address', 'add', `${here}/112`, 'dev', 'eth0', 'nodad');
      await inside('ip', '-6', 'route', 'add', 'default', 'via', there);
      return [there, here];
    },
    async plug(isIn) {
      await inside('ip', 'link', 'set', 'eth0', isIn ? 'up' : 'down');
    },
    async lose(share) {
      for (const [chain, way] of [
        ['INPUT', '-i'],
        ['OUTPUT', '-o'],
      ] as const) {
        await inside('iptables', '-F', chain);
        if (share === 0) continue;
        const random = ['-m', 'statistic', '--mode', 'random', '--probability', String(share)];
        await inside('iptables', '-A', chain, '!', way, 'lo', ...random, '-j', 'DROP');
      }
    },
    name(hosts) {
      const lines = Object.entries(hosts).map(([host, to]) => `${to} ${host}\n`);
      // Written in place, since this very file is mounted inside.
      writeFileSync(join(folder, 'hosts'), `127.0.0.1 localhost\n${lines.join('')}`);
    },
    bytes: () => ({ sent: count('rx'), received: count('tx') }),
    async [Symbol.asyncDispose]() {
      await remove(name);
    },
  };
}

async function remove(name: string): Promise<void> {
  // The veth pair is removed with the namespace.
  await run('ip', ['netns', 'delete', name]).catch(() => {});
  rmSync(join(NAMES, name), { recursive: true, force: true });
}

/** Removes the namespaces of runs that were killed. */
async function removeLeftovers(): Promise<void> {
  let names: string[] = [];
  try {
    names = readdirSync(NAMES);
  } catch {
    // There is none.
  }
  for (const name of names) {
    const [, pid] = /^skerry-(\d+)-/.exec(name) ?? [];
    if (pid && processStartTime(Number(pid)) === undefined) await remove(name);
  }
}
