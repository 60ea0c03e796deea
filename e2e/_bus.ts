import { mkdtempSync, readFileSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { buildImage, buildIndex, type Image } from '../hack/image.ts';
import { programFiles } from '../hack/shell-image.ts';
import { get } from './_stack.ts';

/** An image of the client in `_bus-client.ts`: Node of this machine with the program in one file. */
export async function busClientImage(): Promise<Image> {
  const outfile = join(mkdtempSync(join(tmpdir(), 'skerry-bus-client-')), 'client.mjs');
  await build({
    entryPoints: [join(import.meta.dirname, '_bus-client.ts')],
    ...{ outfile, bundle: true, platform: 'node', format: 'esm', target: 'node24' },
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  });
  const files = [
    ...programFiles({ node: realpathSync(process.execPath) }),
    { path: '/client.mjs', content: readFileSync(outfile) },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
    { path: '/tmp' },
  ];
  return buildIndex([buildImage({ entrypoint: ['node', '/client.mjs'], env: { PATH: '/bin' }, ports: [8080], files })]);
}

/** What a client says of itself. */
export interface Heard {
  /** when its process started, Unix ms */
  started: number;
  /** how often it has connected */
  connects: number;
  /** messages by the name of who sent them */
  heard: Record<string, number>;
  error: string;
  server: string;
}

export async function heardAt(port: number): Promise<Heard | undefined> {
  const text = await get(`http://127.0.0.1:${port}/`);
  return text === undefined ? undefined : (JSON.parse(text) as Heard);
}
