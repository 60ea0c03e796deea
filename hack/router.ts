import { join } from 'node:path';
import { HUB_PROBE_PORT } from '../src/subjects/routers/rules/config.ts';
import { ROUTER_PLACES, type RouterPair } from '../src/wire/router.ts';
import { ROOT } from './paths.ts';

/**
 * Routers as processes of this machine: the program that the variable ROUTER names (skupper-router 3.4), else our stand-in, which does what we
 * rely on.
 */

/** The source of the stand-in, relative to the repository. */
export const ROUTER_STANDIN = 'testing/router-standin/main.ts';
/** The program that ROUTER names; absent: the stand-in. */
export const ROUTER_PROGRAM = process.env.ROUTER;

/** What runs a router with the configuration in a file. */
export const routerCommand = (file: string): { command: string; args: string[] } =>
  ROUTER_PROGRAM === undefined
    ? { command: process.execPath, args: [join(ROOT, ROUTER_STANDIN), '-c', file] }
    : { command: ROUTER_PROGRAM, args: ['-c', file] };

/** What the configuration of a container becomes as a process beside others: other places of certificates, other fixed ports. */
export function routerPairsHere(
  pairs: readonly RouterPair[],
  { certificates, probes }: { certificates: string; probes: number },
): RouterPair[] {
  return pairs.map(([kind, attributes]) => {
    const isProbe = kind === 'listener' && attributes.name === `@${HUB_PROBE_PORT}`;
    const port = isProbe ? probes : attributes.port;
    const placed = Object.entries({ ...attributes, ...(port !== undefined && { port }) }).map(([name, value]) => [
      name,
      typeof value === 'string' ? value.replace(ROUTER_PLACES.certificates, certificates) : value,
    ]);
    return [kind, Object.fromEntries(placed)];
  });
}
