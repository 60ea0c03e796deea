import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { buildImage, buildIndex, type Image, type ImageFile } from './image.ts';
import { ROOT } from './paths.ts';
import { freePort } from './ports.ts';
import { startDaemon } from './process.ts';
import { ROUTER_PROGRAM, ROUTER_STANDIN, routerCommand } from './router.ts';
import { librariesOf, programFiles } from './shell-image.ts';
import { waitFor } from './wait.ts';

/**
 * An image with `skrouterd` in the path, as the public image of the router has it, which tests cannot pull: the program that ROUTER names, with
 * all that it loads, else our stand-in.
 */
export async function routerImage(): Promise<Image> {
  const { files, env } = ROUTER_PROGRAM === undefined ? await standIn() : await realRouter();
  return buildIndex([buildImage({ entrypoint: ['skrouterd'], env: { PATH: '/bin', ...env }, files })]);
}

interface Program {
  files: readonly ImageFile[];
  env?: Record<string, string>;
}

/** Node of this machine, and the stand-in as a script in one file. */
async function standIn(): Promise<Program> {
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, ROUTER_STANDIN)],
    ...{ bundle: true, platform: 'node', format: 'cjs', target: 'node22.13', minify: true, write: false },
    banner: { js: '#!/bin/node' },
  });
  const files = [
    ...programFiles({ node: realpathSync(process.execPath) }),
    { path: '/bin/skrouterd', content: outputFiles[0]?.contents ?? '', mode: 0o755 },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
    { path: '/tmp' },
  ];
  return { files };
}

/**
 * The program, as it shows itself while it runs: its libraries, its Python with the standard library, and the folders that its environment
 * names.
 */
async function realRouter(): Promise<Program> {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-router-'));
  const port = await freePort();
  const config = join(dir, 'skrouterd.json');
  writeFileSync(
    config,
    JSON.stringify([
      ['router', { id: 'image', mode: 'interior' }],
      ['listener', { name: 'clients', role: 'normal', host: '127.0.0.1', port }],
    ]),
  );
  const router = await startDaemon({ name: 'router', dir, ...routerCommand(config) });
  try {
    const mapped = async () => {
      router.assertRunning();
      const maps = readFileSync(`/proc/${router.pid}/maps`, 'utf8');
      const paths = [...maps.matchAll(/ (\/\S+)$/gm)].map(([, path]) => path ?? '');
      // The router has loaded Python once it listens.
      return readFileSync(join(dir, 'logs', 'router.log'), 'utf8').includes(`:${port}`) && [...new Set(paths)];
    };
    const paths = await waitFor(mapped, { what: 'the router to listen' });
    const program = readlinkSync(`/proc/${router.pid}/exe`);
    const python = paths.map((path) => /libpython(3\.\d+)\.so/.exec(path)?.[1]).find((version) => version);
    const variables = readFileSync(`/proc/${router.pid}/environ`, 'utf8').split('\0');
    const env = Object.fromEntries(
      variables.map((pair) => pair.split(/=(.*)/s, 2)).filter(([name]) => /^(PYTHON|SKUPPER_ROUTER_)/.test(name ?? '')),
    );
    const folders = [`/usr/lib/python${python}`, ...Object.values(env).flatMap((value) => String(value).split(':'))];
    // Extensions of Python are mapped, and are no libraries of the program.
    const extensions = paths.filter((path) => path !== program && /\.so(\.|$)/.test(path));
    const libraries = new Set([program, ...extensions].flatMap(librariesOf));
    const files = [
      { path: '/bin/skrouterd', content: readFileSync(program), mode: 0o755 },
      ...[...libraries].sort().map((path) => ({ path, content: readFileSync(realpathSync(path)), mode: 0o755 })),
      ...folders.flatMap(filesBelow),
      { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
      { path: '/tmp' },
    ];
    return { files, env };
  } finally {
    await router.kill();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Every file below a folder but packages of others. */
function filesBelow(folder: string): ImageFile[] {
  const isLeftOut = /\/(dist-packages|__pycache__|test|idlelib|lib2to3|ensurepip)\//;
  const names = statSync(folder, { throwIfNoEntry: false })?.isDirectory()
    ? readdirSync(folder, { recursive: true, encoding: 'utf8' })
    : [];
  return names
    .map((name) => join(folder, name))
    .filter((path) => !isLeftOut.test(path) && statSync(path, { throwIfNoEntry: false })?.isFile())
    .map((path) => ({ path, content: readFileSync(path), mode: 0o755 }));
}
