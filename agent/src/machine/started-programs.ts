import { join } from 'node:path';
import type { StartedProgram } from '../engine-port/exec.ts';
import { listDirectory, makeDirectory, removePath, writeBytes } from './disk.ts';

/** The form of both ids. */
const NAME = /^(\w{1,128})\.(\w{1,128})$/;

/**
 * The programs that this agent has started in containers: an empty file for each, named by its container and itself. Nothing in it
 * can be damaged.
 */
export function programsOnDisk(directory: string) {
  const path = ({ container, id }: StartedProgram) => join(directory, `${container}.${id}`);
  return {
    add(program: StartedProgram): void {
      makeDirectory(directory, 0o700);
      writeBytes(path(program), new Uint8Array(), 0o600);
    },
    remove: (program: StartedProgram): void => removePath(path(program)),
    left: (): StartedProgram[] =>
      listDirectory(directory).flatMap((name) => {
        const [, container, id] = NAME.exec(name) ?? [];
        return container && id ? [{ container, id }] : [];
      }),
  };
}
