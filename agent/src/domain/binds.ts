import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Bind } from '../engine-port/container.ts';

/**
 * A bind is a path that the agent checks and the engine mounts a moment later. A program that can write to a parent
 * directory can replace the path by a link in between. So no container binds a path below a directory that another
 * container of this agent can write to: the mounted path is then the checked one.
 */

/** The binds of one microservice, by its name for people. */
export interface Binder {
  name: string;
  binds: readonly Bind[];
}

/** The paths of a step. They are checked when it is carried out, since a program on the machine may change their links. */
export interface PathCheck {
  /** the binds of the view */
  asked: readonly Bind[];
  /** the binds of the container */
  own: readonly Bind[];
  /** the binds of all other containers, also of those that are being created */
  others: readonly Binder[];
  /** the container does not exist yet */
  isNew: boolean;
}

/** The bind mounts of a view. */
export function bindsOf({ volumeMappings }: Pick<MicroserviceView, 'volumeMappings'>): Bind[] {
  return volumeMappings.flatMap(({ type, hostDestination, accessMode }) =>
    type === 'bind' ? [{ source: hostDestination, writable: accessMode !== 'ro' }] : [],
  );
}

/** Locations of paths, read from the machine. */
export interface Locations {
  /** the location of each path in its file system, the same through every mount: `<device>/<path in it>` */
  locate(paths: readonly string[]): string[];
  mountsBelow(directory: string): string[];
}

/**
 * Why the binds of a microservice conflict with those of others, in one sentence, or undefined. A writable parent is
 * refused only for a new container (`isNew`).
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

/** The locations of binds, by their sources. */
interface Lay {
  /** the locations of all directories on the path to a source */
  way(source: string): readonly string[];
  /** the locations that a source gives access to: its own, and those mounted below it */
  shown(source: string): readonly string[];
}

/** Locates all binds in one call, since the table of mounts is long on a machine with many containers. */
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

/** A bind on whose path another container can write. */
function findBelow(binds: readonly Bind[], writers: readonly Bind[], lay: Lay) {
  for (const writer of writers) {
    if (!writer.writable) continue;
    const shown = lay.shown(writer.source);
    for (const below of binds)
      if (lay.way(below.source).some((step) => shown.some((place) => isInside(step, place)))) return { below, writer };
  }
  return undefined;
}

/** Every directory on a path. */
function waysTo(path: string): string[] {
  const names = path.split('/').filter(Boolean).slice(0, -1);
  return ['/', ...names.map((_, index) => `/${names.slice(0, index + 1).join('/')}`)];
}

const isInside = (place: string, directory: string) => place === directory || place.startsWith(`${directory}/`);

/**
 * The first of these sources that a container has not mounted according to the kernel, or undefined. A program on the
 * machine may have exchanged it between check and mount.
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
