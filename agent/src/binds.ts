/**
 * A bind is a path that the agent checks and the engine mounts a moment later. Whoever may write to a directory on the
 * way there can put a link in between. So no container ever binds what lies below a directory that another container of
 * ours may write to: what was checked is then what is mounted.
 */

/** A directory or file of the machine that a container binds. */
export interface Bind {
  /** without links */
  source: string;
  writable: boolean;
}

/** The binds of one microservice, by its name for people. */
export interface Binder {
  name: string;
  binds: readonly Bind[];
}

/** What the machine knows of where paths lie. */
export interface Locations {
  /** where each path lies in its file system, the same by whatever mount it is reached: `<device>/<path in it>` */
  locate(paths: readonly string[]): string[];
  mountsBelow(directory: string): string[];
}

/**
 * Why a microservice may not bind what it asks for beside those that are there, in one sentence, or undefined. A wider
 * bind that comes later is the one that is refused; `isNew` is a container that is yet to be made.
 */
export function bindConflict(
  own: Binder,
  others: readonly Binder[],
  isNew: boolean,
  locations: Locations,
): string | undefined {
  for (const other of others) {
    const above = findBelow(own.binds, other.binds, locations);
    if (above)
      return `${above.below.source} may not be bound: ${other.name} may write to ${above.writer.source}, and could put something else in its place`;
    const beneath = isNew && findBelow(other.binds, own.binds, locations);
    if (beneath)
      return `${beneath.writer.source} may not be bound for writing: ${other.name} binds ${beneath.below.source}, and something else could be put in its place`;
  }
  return undefined;
}

/** A bind whose way leads through what another one may write to. */
function findBelow(binds: readonly Bind[], writers: readonly Bind[], { locate, mountsBelow }: Locations) {
  for (const writer of writers) {
    if (!writer.writable) continue;
    const shown = locate([writer.source, ...mountsBelow(writer.source)]);
    for (const below of binds)
      if (locate(waysTo(below.source)).some((step) => shown.some((place) => isInside(step, place))))
        return { below, writer };
  }
  return undefined;
}

/** Every directory that a path leads through. */
function waysTo(path: string): string[] {
  const names = path.split('/').filter(Boolean).slice(0, -1);
  return ['/', ...names.map((_, index) => `/${names.slice(0, index + 1).join('/')}`)];
}

const isInside = (place: string, directory: string) => place === directory || place.startsWith(`${directory}/`);

/**
 * What of these sources a container does not have mounted, by the kernel's own word; undefined when all is as asked.
 * Somebody on the machine who is no container of ours may have exchanged it between check and mount.
 */
export function exchanged(
  sources: readonly string[],
  mounted: readonly string[],
  { locate }: Pick<Locations, 'locate'>,
): string | undefined {
  const known = new Set(mounted);
  const asked = locate(sources);
  return sources.find((_, index) => !known.has(asked[index] ?? ''));
}
