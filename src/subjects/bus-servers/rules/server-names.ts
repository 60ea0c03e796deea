import { createHash } from 'node:crypto';

/** What servers of the bus accept as a name and as a domain in any place: no dots, blanks or wildcards. */
const LEGAL = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/;
const MOST_READABLE = 48;

/**
 * The name of a server of the bus, and of the domain of its streams, for a node or installation of any name. A legal name stays as
 * it is; of another name the readable part stays, with a hash of the whole, so that two nodes never share a name. A name in `taken`
 * counts as another name: two servers with one domain would share their streams.
 */
export function serverName(name: string, taken: readonly string[] = []): string {
  if (LEGAL.test(name) && !taken.includes(name)) return name;
  const readable = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, MOST_READABLE)
    .replace(/^-|-$/g, '');
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 12);
  return `${readable || 'bus'}-${hash}`;
}
