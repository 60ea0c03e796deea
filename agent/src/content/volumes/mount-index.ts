import { dirname } from 'node:path';

/** Something of the machine that is in use, by a path, or by a place as `locate` calls it. */
export interface Use {
  at: string;
  /** who uses it, for people */
  by: string;
  /** what lies in it counts as used as well: a container may read and write all of it */
  isWhole: boolean;
}

/** Tells who uses a directory, or something in it, or one of the directories that it lies in, up to `levels` of them. */
export function createMountIndex(uses: Iterable<Use>): (at: string, levels: number) => string | undefined {
  const inside = new Map<string, string>();
  const whole = new Map<string, string>();
  for (const { at, by, isWhole } of uses) {
    if (isWhole) whole.set(at, by);
    for (let each = at; !inside.has(each); each = dirname(each)) {
      inside.set(each, by);
      if (each === dirname(each)) break;
    }
  }
  return (at, levels) => {
    const used = inside.get(at);
    if (used !== undefined) return used;
    for (let each = dirname(at), left = levels; left > 0; each = dirname(each), left--) {
      const by = whole.get(each);
      if (by !== undefined) return by;
    }
    return undefined;
  };
}
