import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A small file system that is mounted somewhere; tests fill it, and make it read-only. */
export class FilledDisk {
  readonly mount: string;

  constructor(mount: string) {
    this.mount = mount;
  }

  /** Leaves no room at all. */
  fill(): void {
    for (const size of [1024 * 1024, 4096, 1])
      for (let n = 0; ; n++)
        try {
          writeFileSync(join(this.mount, `fill-${size}-${n}`), Buffer.alloc(size));
        } catch {
          break;
        }
  }

  free(): void {
    for (const name of readdirSync(this.mount)) if (name.startsWith('fill-')) rmSync(join(this.mount, name));
  }

  make(mode: 'ro' | 'rw'): void {
    execFileSync('mount', ['-o', `remount,${mode}`, this.mount]);
  }
}
