import type { KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isSigned } from '../wire/release-signature.ts';

/** What a place of releases has, as `make release` leaves it: the packages of the latest release, and its version. */

const file = z.object({
  // Both stand in a program for the shell.
  file: z.string().regex(/^[\w.+-]{1,128}$/),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});
const packagesSchema = z.object({
  // A signature of the same key over another text is worth nothing here.
  product: z.literal('skerry-agent-packages').optional(),
  version: z.string().regex(/^[\w.+-]{1,64}$/),
  // When the release was made; older lists do not say it.
  created: z.iso.datetime().optional(),
  packages: z.partialRecord(z.enum(['amd64', 'arm64', 'armv7']), z.object({ deb: file, archive: file })),
});
export type Packages = z.infer<typeof packagesSchema>;

/** Where releases are: a folder, or the URL below which the same files are. */
export type Place = { folder: string } | { url: string };

const PATIENCE_MS = 5_000;
const MAX_BYTES = 64 * 1024;
/** How long a list is taken for the latest one. */
const FRESH_MS = 30_000;

/**
 * Reads the list, at most once in half a minute, however many ask for it. With keys, one of them has to have signed it, and a
 * list that was made before one that this process has read is refused: a signature does not say that a list is the latest.
 */
export function createPackages(
  place: Place,
  keys: readonly KeyObject[] | undefined,
  now: () => number,
): () => Promise<Packages> {
  let kept: { at: number; packages: Promise<Packages> } | undefined;
  let newest = 0;
  const readLatest = async (): Promise<Packages> => {
    const list = await read(place, keys);
    if (!keys) return list;
    const created = list.created === undefined ? 0 : Date.parse(list.created);
    if (created < newest) {
      const when = list.created ? `was made at ${list.created}` : 'does not say when it was made';
      throw new Error(
        `a former list of packages is served: that of ${list.version} ${when}, and one of ${new Date(newest).toISOString()} was read before. A restart of the controller takes it`,
      );
    }
    newest = created;
    return list;
  };
  return () => {
    if (kept && now() - kept.at < FRESH_MS) return kept.packages;
    const mine = { at: now(), packages: readLatest() };
    kept = mine;
    mine.packages.catch(() => {
      if (kept === mine) kept = undefined;
    });
    return mine.packages;
  };
}

async function read(place: Place, keys: readonly KeyObject[] | undefined): Promise<Packages> {
  const bytes = await readAt(place, LIST);
  if (keys && !isSigned(bytes, (await readAt(place, `${LIST}.sig`)).toString('utf8'), keys))
    throw new Error('the signature of the list of packages is not by a key of SKERRY_RELEASES_KEY');
  const list = packagesSchema.parse(JSON.parse(bytes.toString('utf8')));
  if (keys && list.product === undefined) throw new Error('what is signed is not a list of packages');
  return list;
}

const latestSchema = packagesSchema.pick({ version: true });
/** How long the version of a release on another server counts as that of the latest one. */
const LATEST_MS = 5 * 60_000;

/**
 * The version of the latest release: of the signed one, by which agents update themselves, else of the packages. For people
 * only, since the signature is a matter of the machines. Undefined when there is none now.
 */
export function createLatestRelease(place: Place, now: () => number): () => Promise<string | undefined> {
  let kept: { at: number; version: string } | undefined;
  const versionIn = async (file: string) =>
    latestSchema.parse(JSON.parse((await readAt(place, file)).toString('utf8'))).version;
  return async () => {
    if (kept && 'url' in place && now() - kept.at < LATEST_MS) return kept.version;
    const version = await versionIn('latest/manifest.json')
      .catch(() => versionIn(LIST))
      .catch(() => undefined);
    kept = version === undefined ? undefined : { at: now(), version };
    return version;
  };
}

const LIST = 'latest/packages.json';

/** A file of the place; rejects where it is not to be had in time. */
function readAt(place: Place, file: string): Promise<Buffer> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  if ('folder' in place) return readFile(join(place.folder, file), { signal });
  return fetchFile(`${place.url.replace(/(?<!\/)\/+$/, '')}/${file}`, signal);
}

async function fetchFile(url: string, signal: AbortSignal): Promise<Buffer> {
  const response = await fetch(url, { signal });
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of response.body ?? []) {
    size += piece.length;
    if (size > MAX_BYTES) throw new Error(`${url} has more than ${MAX_BYTES} bytes`);
    pieces.push(piece);
  }
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  return Buffer.concat(pieces);
}
