/** Bounds of what one artifact may consist of, since registry and hub name the files. */
export const LIMITS = { files: 20_000, path: 1024, segments: 32, segment: 255 } as const;

/**
 * Why a file name that a registry or a hub gives cannot be used, or undefined. It becomes a path below a directory of
 * this machine, so it must not lead out of it.
 */
export function fileNameProblem(path: string): string | undefined {
  if (path.length > LIMITS.path) return 'is too long';
  const segments = path.split('/');
  if (segments.length > LIMITS.segments) return 'is too long';
  for (const segment of segments) {
    if (segment === '' || segment === '.' || segment === '..') return 'is no path below a directory';
    if (Buffer.byteLength(segment) > LIMITS.segment) return 'is too long';
    for (const letter of segment)
      if (letter < ' ' || letter === '\u007f' || letter === '\\') return 'has letters that no file name may have';
  }
  return undefined;
}

/** Why files with these names cannot lie in one directory, or undefined. */
export function fileNamesProblem(paths: readonly string[]): string | undefined {
  if (paths.length > LIMITS.files) return `it has ${paths.length} files, and ${LIMITS.files} are allowed`;
  const known = new Set<string>();
  const directories = new Set<string>();
  for (const path of paths) {
    const problem = fileNameProblem(path);
    if (problem) return `its file name ${JSON.stringify(path.slice(0, 100))} ${problem}`;
    if (known.has(path)) return `it has two files named ${JSON.stringify(path)}`;
    known.add(path);
    for (let slash = path.indexOf('/'); slash > 0; slash = path.indexOf('/', slash + 1))
      directories.add(path.slice(0, slash));
  }
  const both = [...directories].find((directory) => known.has(directory));
  return both === undefined ? undefined : `its file name ${JSON.stringify(both)} is also that of a directory`;
}
