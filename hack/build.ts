/**
 * Bundles each deployable into one file in dist/, for images and machines. `npm run build`.
 *
 * Modules of Node such as node:sqlite stay imports; everything from node_modules is in the bundle.
 */
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { ROOT } from './paths.ts';

/** Name of the bundle -> its entry point. */
export const BUNDLES = {
  skerry: 'src/main.ts',
  /** the child process that renders templates, next to the controller */
  'skerry-templates': 'src/templates/process.ts',
  /** the process that starts the programs of a control plane on a node */
  'skerry-control-plane': 'src/control-plane/main.ts',
  'skerry-agent': 'agent/src/main.ts',
  'kubectl-skerry': 'cli/src/main.ts',
  'skerry-agent-launcher': 'agent/src/launcher.ts',
} as const;

/** Some packages are CommonJS and call require for Node's own modules. */
const REQUIRE =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);";

/**
 * Node does not warn of deprecated calls that packages make in node_modules. In a bundle it cannot tell whose call it is, and
 * would write such warnings between the lines of the log.
 */
const QUIET = 'process.noDeprecation = true;';

/**
 * Import statements of Node's HTTP become `require`. An import statement reads every export of a module, and some of this one load a
 * client for `fetch` and HTTP/2, which neither program uses: three MiB of memory.
 */
const LEAN_HTTP: Plugin = {
  name: 'lean-http',
  setup(build) {
    const namespace = 'lean-http';
    build.onResolve({ filter: /^node:http$/ }, ({ path, kind }) =>
      kind === 'import-statement' ? { path, namespace } : { path, external: true },
    );
    build.onLoad({ filter: /^/, namespace }, ({ path }) => ({ contents: `module.exports = require('${path}');` }));
  },
};

/** Messages of zod in languages other than English, which no program shows: 300 KiB of text that each of them would hold in memory. */
const ENGLISH_ALONE: Plugin = {
  name: 'english-alone',
  setup(build) {
    build.onLoad({ filter: /\/zod\/v4\/locales\/[^/]+\.js$/ }, ({ path }) =>
      /\/(index|en)\.js$/.test(path) ? undefined : { contents: 'export default () => ({});' },
    );
  },
};

export interface Bundle {
  path: string;
  bytes: number;
  /** folders of the packages that are in it, below the repository's root */
  packages: string[];
}

/** The name of a deployable. */
export type BundleName = keyof typeof BUNDLES;

/** What every part of a release says about itself. */
export interface Origin {
  version: string;
  /** the commit */
  revision: string;
  /** when it was committed */
  created: Date;
}

/** Bundles one deployable. The bundle says what it was built from (`agent/src/domain/build.ts`) where that is given. */
export async function bundle(name: BundleName, outdir = join(ROOT, 'dist'), origin?: Origin): Promise<Bundle> {
  const path = join(outdir, `${name}.mjs`);
  const options: BuildOptions = {
    absWorkingDir: ROOT,
    entryPoints: [join(ROOT, BUNDLES[name])],
    outfile: path,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node22.13',
    minifySyntax: true,
    minifyWhitespace: true,
    keepNames: true,
    legalComments: 'linked',
    sourcemap: 'linked',
    banner: { js: `${REQUIRE}\n${QUIET}` },
    define: origin && {
      SKERRY_BUILD: JSON.stringify({ buildTime: origin.created.toISOString(), gitCommit: origin.revision }),
    },
    metafile: true,
    plugins: [LEAN_HTTP, ENGLISH_ALONE],
    logLevel: 'warning',
  };
  const { metafile } = await build(options);
  chmodSync(path, 0o755);
  const output = Object.entries(metafile?.outputs ?? {}).find(([file]) => file.endsWith('.mjs'));
  const inputs = Object.keys(output?.[1].inputs ?? {});
  const folders = inputs.flatMap((file) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []);
  return { path, bytes: output?.[1].bytes ?? 0, packages: [...new Set(folders)].sort() };
}

/** Bundles the controller with the child process that it needs next to it; resolves with the path of the controller. */
export async function bundleController(outdir: string): Promise<string> {
  const [{ path }] = await Promise.all([bundle('skerry', outdir), bundle('skerry-templates', outdir)]);
  return path;
}

if (import.meta.main) {
  for (const name of Object.keys(BUNDLES) as BundleName[]) {
    const { path, bytes } = await bundle(name);
    console.log(`${path}  ${(bytes / 1024).toFixed(0)} KiB`);
  }
}
