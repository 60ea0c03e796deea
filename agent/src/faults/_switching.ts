import { writeTree } from '../machine/atomic-directory.ts';

/** A process that switches a directory from version to version until it is killed: `node _switching.ts <directory>`. */
const directory = process.argv[2] ?? '';
for (let version = 1; ; version++) {
  const content = Buffer.from(String(version).padStart(2000, '0'));
  writeTree(directory, new Map(['a', 'b', 'c/d', 'c/e'].map((path) => [path, content])));
}
