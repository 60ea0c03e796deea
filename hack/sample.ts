import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { goBuild } from './go.ts';
import { buildImage, buildIndex, hostArchitecture, type Image, type ImageSpec } from './image.ts';
import { lock } from './lock.ts';
import { cacheFolder } from './paths.ts';
import type { Log } from './progress.ts';

const FOLDER = join(import.meta.dirname, 'sample');
const PROGRAM = '/sample';

type Architecture = 'amd64' | 'arm64';

/** Path of the sample's static binary; it is built once and stored in the user's cache folder. */
async function sampleBinary(architecture: Architecture, log: Log, signal?: AbortSignal): Promise<string> {
  const sources = readdirSync(FOLDER)
    .sort()
    .map((file) => readFileSync(join(FOLDER, file)));
  const hash = createHash('sha256').update(Buffer.concat(sources)).digest('hex').slice(0, 12);
  const path = join(cacheFolder(), `sample-${hash}`, architecture);
  if (existsSync(path)) return path;
  await using _one = await lock(join(cacheFolder(), 'sample.lock'), { signal });
  if (!existsSync(path)) {
    const name = 'the sample server';
    await goBuild({ name, module: FOLDER, package: '.', output: path, arch: architecture, log, signal });
  }
  return path;
}

/**
 * An image of the sample server (its functions: hack/sample/main.go), for this machine's architecture or for several.
 * `overrides` make different images: another greeting, labels, a crash after a second.
 *
 *     sampleImage({ env: { GREETING: 'v2' } })
 *     sampleImage({ env: { EXIT_AFTER: '1s', EXIT_CODE: '3' } })
 */
export async function sampleImage(
  overrides: Partial<Omit<ImageSpec, 'architecture'>> = {},
  architectures: readonly Architecture[] = [hostArchitecture()],
  log: Log = () => {},
  signal?: AbortSignal,
): Promise<Image> {
  const images: Image[] = [];
  for (const architecture of architectures) {
    const program = {
      path: PROGRAM,
      content: readFileSync(await sampleBinary(architecture, log, signal)),
      mode: 0o755,
    };
    images.push(
      buildImage({
        entrypoint: [PROGRAM],
        ports: [8080],
        ...overrides,
        files: [program, { path: '/tmp' }, ...(overrides.files ?? [])],
        architecture,
      }),
    );
  }
  return buildIndex(images);
}
