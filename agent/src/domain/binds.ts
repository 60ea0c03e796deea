import type { MicroserviceView } from '../../../src/wire/agent.ts';

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

/** The paths that a step is about, to be looked at when it is carried out: a program of the machine may change where they lead. */
export interface PathCheck {
  /** what the view names */
  asked: readonly Bind[];
  /** what the container binds */
  own: readonly Bind[];
  /** what all other containers bind, also those that are being made */
  others: readonly Binder[];
  /** the container is yet to be made */
  isNew: boolean;
}

/** What of the machine a view binds. */
export function bindsOf({ volumeMappings }: Pick<MicroserviceView, 'volumeMappings'>): Bind[] {
  return volumeMappings.flatMap(({ type, hostDestination, accessMode }) =>
    type === 'bind' ? [{ source: hostDestination, writable: accessMode !== 'ro' }] : [],
  );
}

/** What the machine knows of where paths lie. */
export interface Locations {
  /** where each path lies in its file system, the same by whatever mount it is reached: `<device>/<path in it>` */
  locate(paths: readonly string[]): string[];
  mountsBelow(directory: string): string[];
}

/**
 * Why a microservice may not bind what it asks for in addition to the binds of others, in one sentence, or undefined. A wider
 * bind that comes later is the one that is refused; `isNew` is a container that is yet to be made.
 */
export function bindConflict(
  own: Binder,
  others: readonly Binder[],
  isNew: boolean,
  locations: Locations,
): string | undefined {
  const lay = layOf(
    [own, ...others].flatMap(({ binds }) => binds),
    locations,
  );
  for (const other of others) {
    const above = findBelow(own.binds, other.binds, lay);
    if (above)
      return `${above.below.source} may not be bound: ${other.name} may write to ${above.writer.source}, and could put something else in its place`;
    const beneath = isNew && findBelow(other.binds, own.binds, lay);
    if (beneath)
      return `${beneath.writer.source} may not be bound for writing: ${other.name} binds ${beneath.below.source}, and something else could be put in its place`;
  }
  return undefined;
}

/** Where binds lie, by their sources. */
interface Lay {
  /** the places that the way to a source leads through */
  way(source: string): readonly string[];
  /** the places that a source shows: its own, and those that are mounted below it */
  shown(source: string): readonly string[];
}

/** Asks the machine once for all binds: its table of mounts is long where many containers run. */
function layOf(binds: readonly Bind[], { locate, mountsBelow }: Locations): Lay {
  const ways = new Map(binds.map(({ source }) => [source, waysTo(source)]));
  const writers = binds.filter(({ writable }) => writable).map(({ source }) => source);
  const shown = new Map([...new Set(writers)].map((source) => [source, [source, ...mountsBelow(source)]]));
  const paths = [...new Set([...ways.values(), ...shown.values()].flat())];
  const places = locate(paths);
  const placeOf = new Map(paths.map((path, index) => [path, places[index] ?? path]));
  const placesOf = (asked: readonly string[] = []) => asked.map((path) => placeOf.get(path) ?? path);
  return { way: (source) => placesOf(ways.get(source)), shown: (source) => placesOf(shown.get(source)) };
}

/** A bind whose way leads through what another one may write to. */
function findBelow(binds: readonly Bind[], writers: readonly Bind[], lay: Lay) {
  for (const writer of writers) {
    if (!writer.writable) continue;
    const shown = lay.shown(writer.source);
    for (const below of binds)
      if (lay.way(below.source).some((step) => shown.some((place) => isInside(step, place)))) return { below, writer };
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
 * A program on the machine may have exchanged it between check and mount.
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
