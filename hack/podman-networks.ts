import { execFile, spawnSync } from 'node:child_process';
import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { unusedRules } from './podman-rules.ts';

const run = promisify(execFile);
/** Where podmans that root runs have the network namespaces of their containers. */
const NAMESPACES = '/run/netns';
const OF_PODMAN = /^netns-[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;
const BRIDGE = /^podman\d+$/;
/** After this time a podman has a process in a namespace that it made, and what belongs to a bridge. */
const SETTLED_MS = { namespace: 5_000, network: 2_000 };
/** Until the kernel has removed the cables of deleted namespaces. */
const UNPLUGGED_MS = 1_000;

/**
 * Removes networks that killed podmans have left on this machine: namespaces without a process, bridges to which nothing is connected, and rules
 * of iptables for subnets without an address of the machine. Such a rule takes a published port for good: whoever listens at that port of the
 * machine later is not reached. Networks in use stay, whichever podman has them. Takes seconds if there is something to remove, and does nothing
 * without root. Rules of nftables, which newer podmans write, stay.
 */
export async function removePodmanNetworks(): Promise<void> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return;
  const namespaces = await settled(leftNamespaces, SETTLED_MS.namespace);
  for (const name of namespaces) await run('ip', ['netns', 'delete', name]).catch(() => {});
  if (namespaces.length > 0) await sleep(UNPLUGGED_MS);
  for (const name of await settled(leftBridges, SETTLED_MS.network))
    await run('ip', ['link', 'delete', name]).catch(() => {});
  const rules = await settled(leftRules, SETTLED_MS.network);
  if (rules.length > 0) spawnSync('iptables-restore', ['--noflush'], { input: `${rules.join('\n')}\n` });
}

/** Names that are left now and a moment later: no podman is about to make or to remove them. */
async function settled(left: () => Promise<string[]>, afterMs: number): Promise<string[]> {
  const before = await left();
  if (before.length === 0) return [];
  await sleep(afterMs);
  return (await left()).filter((one) => before.includes(one));
}

async function leftNamespaces(): Promise<string[]> {
  const entered = enteredNamespaces();
  const isLeft = (inode: number | undefined) => inode !== undefined && !entered.has(inode);
  return list(NAMESPACES).filter((name) => OF_PODMAN.test(name) && isLeft(inodeOf(name)));
}

async function leftBridges(): Promise<string[]> {
  const links = await ask<{ ifname: string; master?: string }>('link', 'show');
  const connected = new Set(links.map(({ master }) => master));
  return links.map(({ ifname }) => ifname).filter((name) => BRIDGE.test(name) && !connected.has(name));
}

async function leftRules(): Promise<string[]> {
  const found = await ask<{ addr_info: { local: string }[] }>('-4', 'address', 'show');
  const { stdout } = spawnSync('iptables-save', { encoding: 'utf8' });
  return unusedRules(
    stdout ?? '',
    found.flatMap(({ addr_info }) => addr_info.map(({ local }) => local)),
  );
}

/** What `ip` answers about this network namespace; nothing where it is missing. */
async function ask<T>(...words: readonly string[]): Promise<T[]> {
  const { stdout } = await run('ip', ['-json', ...words]).catch(() => ({ stdout: '' }));
  return JSON.parse(stdout || '[]');
}

/** Network namespaces with a process, by inode. */
function enteredNamespaces(): Set<number> {
  const found = new Set<number>();
  for (const pid of list('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      found.add(Number(/\d+/.exec(readlinkSync(`/proc/${pid}/ns/net`))?.[0]));
    } catch {
      // It has ended meanwhile.
    }
  }
  return found;
}

/** Undefined where the namespace was deleted meanwhile. */
function inodeOf(name: string): number | undefined {
  return statSync(join(NAMESPACES, name), { throwIfNoEntry: false })?.ino;
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
