import { lookup as systemLookup } from 'node:dns';
import { lookup as lookupAll } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { Reach, type ReachLimits } from '../../domain/reach.ts';
import { EngineError } from '../../engine-port/error.ts';
import { plainHost } from '../../machine/http.ts';

/** Looks a name up; replaced in tests. */
export type Resolver = typeof systemLookup;

/** Throws where a URL may not be asked: by its name, or by its address when it is written as one. */
export function requireReach(reach: Reach, url: URL): void {
  const { host } = url;
  const literal = plainHost(url);
  const refused = reach.hostRefusal(host) ?? (isIP(literal) ? reach.addressRefusal(host, literal) : undefined);
  if (refused) throw new EngineError('PolicyRefused', refused);
}

/**
 * The look-up of a connection to a host: only addresses that may be connected to are found. The addresses are judged here
 * and connected to as they are, so that a name which means another address a moment later gains nothing.
 */
export function judgedLookup(reach: Reach, host: string, resolve: Resolver = systemLookup): LookupFunction {
  return (name, options, callback) =>
    resolve(name, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '', 0);
      const judged = found.map((each) => ({ ...each, refused: reach.addressRefusal(host, each.address) }));
      const allowed = judged.flatMap(({ address, family, refused }) => (refused ? [] : [{ address, family }]));
      const [first] = allowed;
      if (!first) return callback(new EngineError('PolicyRefused', judged[0]?.refused ?? 'no address'), '', 0);
      return options.all ? callback(null, allowed) : callback(null, first.address, first.family);
    });
}

/**
 * Throws where an engine may not ask a registry itself. Names are looked up only where a policy keeps containers off the
 * machine's own network; without one they reach every address that the engine does. The engine looks the name up again, and
 * goes by itself where the registry leads: `pullThroughAgent` of the policy closes both.
 */
export async function requireRegistryReach(host: string, limits: ReachLimits): Promise<void> {
  const reach = new Reach(host, limits);
  const url = URL.parse(`http://${host}`);
  // The engine says what is wrong with a host that is none.
  if (!url) return;
  requireReach(reach, url);
  if (limits.policy.hostNetwork || reach.names(host) || isIP(plainHost(url))) return;
  const found = await lookupAll(url.hostname, { all: true }).catch(() => []);
  const refused = found.map(({ address }) => reach.addressRefusal(host, address));
  if (found.length > 0 && refused.every(Boolean)) throw new EngineError('PolicyRefused', refused[0] ?? '');
}
