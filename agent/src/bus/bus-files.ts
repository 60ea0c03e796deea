import { hash } from 'node:crypto';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { BUS_FILES, BUS_SETS, isTokensFile, tokensIn } from '../../../src/wire/bus.ts';
import type { Tree } from '../machine/atomic-directory.ts';

/** What this machine has for its server of the message bus. */
export interface BusFiles {
  /** credentials of the user that tells the server */
  creds: string;
  /** certificates by which the server is known; absent: it has no TLS for clients */
  ca?: string;
  /** by the public key of their account */
  tokens: ReadonlyMap<string, string>;
  /** digest of everything that a reload reads */
  config: string;
}

/** Reads the files of the server; undefined until they are here. */
export function readBusFiles(read: (set: string) => Tree | undefined): BusFiles | undefined {
  const system = read(BUS_SETS.system);
  const creds = system?.get(BUS_FILES.credentials);
  const ca = system?.get(BUS_FILES.ca);
  const config = read(BUS_SETS.config);
  if (!creds || !config) return undefined;
  const tokens = new Map<string, string>();
  const others: [string, Tree][] = [[BUS_SETS.config, new Map([...config].filter(([path]) => !isTokensFile(path)))]];
  for (const [path, content] of config)
    if (isTokensFile(path)) for (const [key, token] of tokensIn(textOf(content))) tokens.set(key, token);
  for (const set of [BUS_SETS.certificate, BUS_SETS.mqttCertificate]) others.push([set, read(set) ?? new Map()]);
  return { creds: textOf(creds), ...(ca && { ca: textOf(ca) }), tokens, config: digestOf(others) };
}

/** The port of the machine at which the server listens for clients; undefined where there is no server. */
export function busPortOf(views: Iterable<MicroserviceView>): number | undefined {
  for (const { isBus, isSystem, portMappings } of views) if (isBus && isSystem) return portMappings[0]?.external;
  return undefined;
}

const textOf = (content: Uint8Array) => Buffer.from(content).toString();

function digestOf(sets: readonly (readonly [string, Tree])[]): string {
  const files = sets.flatMap(([set, tree]) =>
    [...tree].map(([path, content]) => `${set}/${path} ${hash('sha256', content)}`),
  );
  return hash('sha256', files.sort().join('\n'));
}

/** When a token was signed, in seconds; undefined for text that is no token. */
export function issuedAt(token: string): number | undefined {
  try {
    const { iat } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { iat?: unknown };
    return typeof iat === 'number' ? iat : undefined;
  } catch {
    return undefined;
  }
}
