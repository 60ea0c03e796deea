import { execFileSync } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { buildImage, buildIndex, type Image, type ImageFile, type ImageSpec } from './image.ts';

/** What an image with a shell has, from this machine: /bin/sh is the first. */
const PROGRAMS = { sh: '/bin/sh', cat: '/bin/cat', stty: '/bin/stty', sleep: '/bin/sleep', tar: '/bin/tar' };

/** An image with the shell of this machine and a few programs, for tests that run commands in containers. It sleeps unless `spec` says more. */
export function shellImage(spec: Partial<ImageSpec> = {}): Image {
  const all = [...programFiles(PROGRAMS), { path: '/tmp' }, ...(spec.files ?? [])];
  return buildIndex([buildImage({ cmd: ['/bin/sleep', '3600'], env: { PATH: '/bin' }, ...spec, files: all })]);
}

/** The files of programs of this machine, in /bin of an image by these names, with the libraries that they load. */
export function programFiles(programs: Readonly<Record<string, string>>): ImageFile[] {
  const files = new Map<string, ImageFile>();
  for (const [name, path] of Object.entries(programs)) {
    files.set(name, program(`/bin/${name}`, path));
    for (const library of librariesOf(path)) files.set(library, program(library, library));
  }
  return [...files.values()];
}

const program = (path: string, source: string): ImageFile => ({
  path,
  content: readFileSync(realpathSync(source)),
  mode: 0o755,
});

/** Absolute paths of the libraries of a program or a library, as ldd prints them; the loader is among them. */
export function librariesOf(path: string): string[] {
  const printed = execFileSync('ldd', [path], { encoding: 'utf8' });
  return [...printed.matchAll(/(\/\S+) \(0x/g)].map(([, library]) => library ?? '');
}
