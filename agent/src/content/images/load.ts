import { TarError } from '../../../../src/lib/tar/read.ts';
import { AgentError } from '../../domain/agent-error.ts';
import { type DiskRoom, roomRefusal } from '../../domain/disk-room.ts';
import { asking } from '../../domain/engine-trouble.ts';
import type { ImagePort } from '../../engine-port/images.ts';
import { NotPlainError, openPlainFile, type PlainFile } from '../../machine/plain-file.ts';
import { examineArchive, repackArchive } from './archive.ts';
import { ArchiveError } from './archive-error.ts';
import type { ArchivedImage } from './archive-form.ts';

/** A microservice that has an image, or is to have it. */
interface ImageUser {
  uuid: string;
  application: string;
  name: string;
}

/** A name of an image that is here now, and the image. */
export interface LoadedImage {
  /** in full; absent: the archive gives the image no name */
  name?: string;
  id: string;
}

/** Characters of a path. */
const PATH_LENGTH = 4096;

export interface LoadDependencies {
  engine: Pick<ImagePort, 'image' | 'loadImages'>;
  /** in the words of images */
  architecture: string;
  /** the disk that the engine writes to; undefined where it is not known */
  room(): Promise<DiskRoom | undefined>;
  /** The microservices of this machine that run, or are to run, an image by this name in full. */
  usersOf(name: string): readonly ImageUser[];
}

/** Opens an archive on this machine. Throws INVALID_ARGUMENT for anything but a file with content of its own. */
export async function openArchive(path: string): Promise<PlainFile> {
  const problem = !path.startsWith('/')
    ? 'is not an absolute path'
    : path.length > PATH_LENGTH || path.includes('\0')
      ? 'is no path of a file'
      : undefined;
  const shown = path.slice(0, 200);
  if (problem) throw new AgentError('INVALID_ARGUMENT', `path "${shown}" ${problem}`, { details: { field: 'path' } });
  try {
    return await openPlainFile(path);
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    throw new AgentError('INVALID_ARGUMENT', `path "${shown}" ${error.message}; it has to be a file of this machine`, {
      details: { field: 'path' },
    });
  }
}

/**
 * Loads the images of an open archive. It is read twice: once to know its names and what it takes, and once for the engine, which
 * gets exactly what was judged. Throws AgentError where a name is used by a microservice here with another image, and where the
 * disk has too little room; then nothing was loaded.
 */
export async function loadArchive(
  file: PlainFile,
  deps: LoadDependencies,
  progressed: (percentage: number) => void,
  signal: AbortSignal,
): Promise<LoadedImage[]> {
  const { engine } = deps;
  const total = 2 * Math.max(1, file.size);
  let read = 0;
  async function* pieces(): AsyncGenerator<Buffer> {
    for await (const piece of file.pieces()) {
      signal.throwIfAborted();
      read += piece.length;
      progressed(Math.min(99, Math.floor((read / total) * 100)));
      yield piece;
    }
  }
  try {
    const checkRoom = async (bytes: number) => requireRoom(bytes, await deps.room());
    const examined = await examineArchive(pieces(), { architecture: deps.architecture, checkRoom });
    const checkNames = () => requireFreeNames(examined.images, deps);
    await checkNames();
    // A microservice may have begun to use a name while the engine got the layers.
    await asking(engine.loadImages(repackArchive(pieces(), examined, checkNames), signal));
    return await Promise.all(examined.images.flatMap((image) => loadedNames(image, engine)));
  } catch (error) {
    if (!(error instanceof ArchiveError || error instanceof TarError)) throw error;
    throw new AgentError('INVALID_ARGUMENT', `the archive is not loaded: ${error.message}`, { cause: error });
  }
}

function requireRoom(bytes: number, room: DiskRoom | undefined): void {
  const refused = room && roomRefusal(bytes, room);
  if (refused) throw new AgentError('UNAVAILABLE', `the archive is not loaded: ${refused}`);
}

/** No name of a microservice here changes its image unseen: it would run another program at its next start. */
async function requireFreeNames(
  images: readonly ArchivedImage[],
  { engine, usersOf }: LoadDependencies,
): Promise<void> {
  const given = Map.groupBy(
    images.flatMap(({ id, names }) => names.map((name) => ({ id, name }))),
    ({ name }) => name,
  );
  const taken: Record<string, string[]> = {};
  for (const [name, ones] of given) {
    const users = usersOf(name);
    if (users.length === 0) continue;
    const present = await asking(engine.image(name));
    if (present !== undefined && ones.some(({ id }) => id !== present))
      taken[name] = users.map(({ application, name }) => `${application}.${name}`);
  }
  const names = Object.entries(taken).map(([name, users]) => `${name} (${users.join(', ')})`);
  if (names.length > 0)
    throw new AgentError(
      'CONFLICT',
      `the archive is not loaded: microservices here use names of it for other images: ${names.join('; ')}. Give the new image another name`,
      { details: { names: taken } },
    );
}

function loadedNames(image: ArchivedImage, engine: LoadDependencies['engine']): Promise<LoadedImage>[] {
  if (image.names.length === 0) return [Promise.resolve({ id: image.id })];
  return image.names.map(async (name) => {
    const id = await asking(engine.image(name));
    if (id === undefined) throw new AgentError('INTERNAL', `the engine says that it is done, but has no image ${name}`);
    return { name, id };
  });
}
