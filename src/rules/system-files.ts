import { hash } from 'node:crypto';
import type { SystemFileSetView } from '../wire/system-files.ts';
import type { SystemFileSet } from './inputs.ts';
import { onceEach } from './once-each.ts';

/** A set of files as its node gets it: without content. */
export const systemFilesView = onceEach(
  ({ name, files }: SystemFileSet): SystemFileSetView => ({
    name,
    files: Object.entries(files).map(([path, content]) => {
      const bytes = Buffer.from(content, 'base64');
      return { path, digest: hash('sha256', bytes), size: bytes.length };
    }),
  }),
);
