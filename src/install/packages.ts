import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

/** The packages of the latest release of the agent, as `make release` lists them beside the packages. */

const file = z.object({
  // Both stand in a program for the shell.
  file: z.string().regex(/^[\w.+-]{1,128}$/),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});
const packagesSchema = z.object({
  version: z.string().regex(/^[\w.+-]{1,64}$/),
  packages: z.partialRecord(z.enum(['amd64', 'arm64', 'armv7']), z.object({ deb: file, archive: file })),
});
export type Packages = z.infer<typeof packagesSchema>;

/** Where releases are: a folder, or the URL below which the same files are. */
export type Place = { folder: string } | { url: string };

const PATIENCE_MS = 5_000;
const MAX_BYTES = 64 * 1024;
/** How long a list is taken for the latest one. */
const FRESH_MS = 30_000;

/** Reads the list, at most once in half a minute, however many ask for it. */
export function createPackages(place: Place, now: () => number): () => Promise<Packages> {
  let kept: { at: number; packages: Promise<Packages> } | undefined;
  return () => {
    if (kept && now() - kept.at < FRESH_MS) return kept.packages;
    const mine = { at: now(), packages: read(place) };
    kept = mine;
    mine.packages.catch(() => {
      if (kept === mine) kept = undefined;
    });
    return mine.packages;
  };
}

async function read(place: Place): Promise<Packages> {
  const text = 'folder' in place ? await readFile(join(place.folder, LIST), 'utf8') : await fetchText(place.url);
  return packagesSchema.parse(JSON.parse(text));
}

const LIST = 'latest/packages.json';

async function fetchText(url: string): Promise<string> {
  const response = await fetch(`${url.replace(/\/+$/, '')}/${LIST}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of response.body ?? []) {
    size += piece.length;
    if (size > MAX_BYTES) throw new Error(`the list of packages has more than ${MAX_BYTES} bytes`);
    pieces.push(piece);
  }
  if (!response.ok) throw new Error(`the list of packages: status ${response.status}`);
  return Buffer.concat(pieces).toString('utf8');
}
