import { hash } from 'node:crypto';
import { managedEntities, type RouterEntity } from '../../../src/router-client/changes.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { ROUTER_FILES, ROUTER_SETS, type RouterPair } from '../../../src/wire/router.ts';
import type { Tree } from '../machine/atomic-directory.ts';

/** What this machine has for its router. */
export interface RouterFiles {
  /** the port at which the router takes clients with a certificate */
  port: number;
  /** by which the agent is such a client; texts */
  tls: { ca: string; cert: string; key: string };
  /** which the router has from its start */
  mode: string;
  entities: readonly RouterEntity[];
  /** digests of the files of each profile */
  certificates: ReadonlyMap<string, string>;
  /** changes with any of them */
  digest: string;
}

/** Files of a set with a certificate. */
const CERTIFICATE = { ca: 'ca.crt', cert: 'tls.crt', key: 'tls.key' } as const;

/** Reads the files of the router; undefined until they are here. */
export function readRouterFiles(read: (set: string) => Tree | undefined): RouterFiles | undefined {
  const agent = read(ROUTER_SETS.agent);
  const text = read(ROUTER_SETS.config)?.get(ROUTER_FILES.config);
  const pairs = text && pairsIn(textOf(text));
  const port = pairs && portIn(pairs);
  const [ca, cert, key] = [CERTIFICATE.ca, CERTIFICATE.cert, CERTIFICATE.key].map((name) => agent?.get(name));
  if (!pairs || port === undefined || !ca || !cert || !key) return undefined;
  const certificates = new Map(
    [ROUTER_SETS.site, ROUTER_SETS.local].flatMap((set) => {
      const files = read(set);
      return files ? [[set, digestOf(files)] as const] : [];
    }),
  );
  const tls = { ca: textOf(ca), cert: textOf(cert), key: textOf(key) };
  const digest = hash('sha256', JSON.stringify([textOf(text), tls, [...certificates]]));
  const mode = String(pairs.find(([entity]) => entity === 'router')?.[1].mode ?? '');
  return { port, tls, mode, entities: managedEntities(pairs), certificates, digest };
}

/** Whether this machine has a router. */
export function hasRouter(views: Iterable<MicroserviceView>): boolean {
  for (const { isRouter, isSystem } of views) if (isRouter && isSystem) return true;
  return false;
}

/** The port for clients with a certificate of this machine. */
function portIn(pairs: readonly RouterPair[]): number | undefined {
  const found = pairs.find(
    ([entity, { role, sslProfile }]) => entity === 'listener' && role === 'normal' && sslProfile === ROUTER_SETS.local,
  );
  const port = Number(found?.[1].port);
  return Number.isInteger(port) && port > 0 ? port : undefined;
}

/** The pairs of a configuration that the controller made; undefined for any other text. */
function pairsIn(text: string): readonly RouterPair[] | undefined {
  try {
    const pairs: unknown = JSON.parse(text);
    const isPair = (one: unknown) =>
      Array.isArray(one) && typeof one[0] === 'string' && typeof one[1] === 'object' && one[1] !== null;
    return Array.isArray(pairs) && pairs.every(isPair) ? (pairs as RouterPair[]) : undefined;
  } catch {
    return undefined;
  }
}

const textOf = (content: Uint8Array) => Buffer.from(content).toString();

const digestOf = (tree: Tree): string =>
  hash(
    'sha256',
    [...tree]
      .map(([path, content]) => `${path} ${hash('sha256', content)}`)
      .sort()
      .join('\n'),
  );
