import { lookup as systemLookup } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import { EngineError } from '../../engine-port/error.ts';

type Hosts = ContainerSpec['extraHosts'];

/** Resolves the name of a machine to an address. */
export type Lookup = (name: string) => Promise<string>;

const DEADLINE = 10_000;

/** The machine's own resolver. */
export const lookupName: Lookup = async (name) => {
  const late = new AbortController();
  const deadline = sleep(DEADLINE, undefined, { signal: late.signal }).then(() => {
    throw new Error(`no answer in ${DEADLINE / 1000} s`);
  });
  try {
    return (await Promise.race([systemLookup(name), deadline])).address;
  } finally {
    late.abort();
    deadline.catch(() => {});
  }
};

/**
 * Extra hosts with addresses that an engine takes: the names among `unresolved` get the address that this machine knows
 * for them when the container is made.
 */
export async function resolveHosts(hosts: Hosts, unresolved: ReadonlySet<string>, lookup: Lookup): Promise<Hosts> {
  return Promise.all(
    hosts.map(async ({ name, address }) => {
      if (!unresolved.has(address)) return { name, address };
      try {
        return { name, address: await lookup(address) };
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        throw new EngineError('Failed', `extra host ${name}: this machine finds no address of "${address}": ${why}`);
      }
    }),
  );
}
