/**
 * What a version is tested against: the programs of the last release, compressed, its chart, and a database of each form that was
 * released. The last step of a release (CONTRIBUTING.md) replaces them: `node hack/last-release.ts`.
 *
 *     hack/testing/last-release/release.json, <program>.mjs.br      the last release only
 *     hack/testing/last-release/skerry.tgz                          its chart
 *     agent/src/state/testdata/form-<n>.db, form-<n>.json           each form: the database, and what it holds
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync } from 'node:zlib';
import { writeSample } from '../agent/src/state/_forms.ts';
import packageJson from '../package.json' with { type: 'json' };
import { type BundleName, bundle } from './build.ts';
import { chartArchive } from './package/cluster.ts';
import { ROOT } from './paths.ts';

const FOLDER = join(ROOT, 'hack/testing/last-release');
/** The second one is started by the first, from the same folder. */
const PROGRAMS = ['skerry', 'skerry-templates', 'skerry-agent'] as const satisfies readonly BundleName[];

/** The programs of the last release, as files. */
export interface LastRelease {
  controller: string;
  agent: string;
}

/** Unpacks the programs of the last release into a folder. */
export function unpackLastRelease(to: string): LastRelease {
  mkdirSync(to, { recursive: true });
  const [controller = '', , agent = ''] = PROGRAMS.map((name) => {
    const path = join(to, `${name}.mjs`);
    writeFileSync(path, brotliDecompressSync(readFileSync(join(FOLDER, `${name}.mjs.br`))));
    return path;
  });
  return { controller, agent };
}

/** Archive of the chart of the last release. */
export const LAST_CHART = join(FOLDER, 'skerry.tgz');

export function lastVersion(): string {
  return JSON.parse(readFileSync(join(FOLDER, 'release.json'), 'utf8')).version;
}

async function keep(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-release-'));
  try {
    mkdirSync(FOLDER, { recursive: true });
    for (const name of PROGRAMS) {
      const { path, bytes } = await bundle(name, dir);
      const packed = brotliCompressSync(readFileSync(path));
      writeFileSync(join(FOLDER, `${name}.mjs.br`), packed);
      console.log(`${name} ${(bytes / 1024).toFixed(0)} KiB, compressed ${(packed.length / 1024).toFixed(0)} KiB`);
    }
    writeFileSync(LAST_CHART, chartArchive());
    writeFileSync(join(FOLDER, 'release.json'), `${JSON.stringify({ version: packageJson.version })}\n`);
    console.log(`Database of form ${writeSample(join(ROOT, 'agent/src/state/testdata'))}`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

if (import.meta.main) await keep();
