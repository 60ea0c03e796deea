import { BUILT_IN_REGISTRIES } from '../../../../src/api/names.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { RegistryView } from '../../../../src/wire/agent.ts';
import { AgentError } from '../../domain/agent-error.ts';
import { asking } from '../../domain/engine-trouble.ts';
import { type Policy, registryRefusal } from '../../domain/policy.ts';
import { formatReference, isReference, isStandIn, parseReference } from '../../domain/reference.ts';
import { localRegistryNumber } from '../../domain/registry-number.ts';
import type { PullByHand } from '../../domain/step.ts';
import { pullTarget } from '../../domain/target.ts';
import type { ImagePort, ImageUse, LocalImage } from '../../engine-port/images.ts';
import type { PlainFile } from '../../machine/plain-file.ts';
import { type LoadDependencies, type LoadedImage, loadArchive, openArchive } from './load.ts';
import { type SelectedImage, selectImage } from './selector.ts';

export interface ImagesDependencies extends LoadDependencies {
  engine: ImagePort;
  log: Log;
  policy(): Policy;
  /** a registry of the machine itself */
  registry(id: number): RegistryView | undefined;
  /** its kind while it can be asked, or why it cannot */
  connection(): { engine: string } | { problem: string };
  /** Pulls in the turn of the registry, notes that this agent pulled the image, and returns its id. Throws EngineError. */
  pull(request: PullByHand, onProgress: (percentage: number) => void, signal: AbortSignal): Promise<string>;
  /** the reference by which this agent pulled an image first; undefined for an image that it did not pull */
  pulledAs(id: string): string | undefined;
  /** the application of a microservice of a controller */
  applicationOf(uuid: string): string | undefined;
  /** An image no longer counts as pulled by this agent: a person loaded it, or it was removed. */
  disown(id: string): void;
}

/** The images of the engine, for the admin of the machine. Every method throws AgentError, UNAVAILABLE while the engine is not connected. */
export class Images {
  readonly #deps: ImagesDependencies;
  /** loads are carried out one after another: each judges the room and the names that the former left */
  #lastLoad: Promise<unknown> = Promise.resolve();

  constructor(deps: ImagesDependencies) {
    this.#deps = deps;
  }

  /** the kind of the engine */
  get engine(): string {
    const connection = this.#deps.connection();
    return 'engine' in connection ? connection.engine : '';
  }

  /** of this machine, as pulls name it */
  get platform(): string {
    return `linux/${this.#deps.architecture}`;
  }

  /** All images of the engine, and the containers of any owner that use them. */
  async list(signal?: AbortSignal): Promise<{ images: LocalImage[]; uses: ImageUse[] }> {
    const { engine } = this.#connected();
    const [images, uses] = await asking(Promise.all([engine.listImages(signal), engine.imageUses(signal)]));
    return { images, uses };
  }

  /** What a pull means on this machine. Throws INVALID_ARGUMENT for a registry that has no images, FORBIDDEN by the policy. */
  pullRequest({ image, registryId, platform, by }: AskedPull): PullByHand {
    const policy = this.#deps.policy();
    if (by && platform)
      throw new AgentError(
        'FORBIDDEN',
        'a microservice pulls for the platform of this machine alone: leave platform out',
      );
    const registry = this.#registry(registryId);
    const target = pullTarget(image, registry, policy);
    if (!isReference(target.reference))
      throw new AgentError('INVALID_ARGUMENT', `image "${image.slice(0, 200)}" is not a reference of an image`);
    if (isStandIn(parseReference(target.reference).tag))
      throw new AgentError(
        'INVALID_ARGUMENT',
        `image "${image}" has a tag that stands for a digest: pull it by @sha256:`,
      );
    const refused = registryRefusal(registryId, target.reference, policy);
    if (refused) throw new AgentError('FORBIDDEN', refused);
    return { reference: image, registryId: localRegistryNumber(registryId ?? 0), platform, pull: target, by };
  }

  #registry(id: number | undefined): RegistryView | undefined {
    if (id === undefined) return undefined;
    const refuse = (why: string): never => {
      throw new AgentError('INVALID_ARGUMENT', `registryId ${id} ${why}`, { details: { field: 'registryId' } });
    };
    const { local, remote } = BUILT_IN_REGISTRIES;
    if (id === local.id) refuse('is the cache of this machine, from which nothing is pulled');
    const registry = this.#deps.registry(id);
    if (!registry && id !== remote.id) refuse('is not a registry of this machine');
    if (registry?.type === 'hub') refuse('is a hub of models and knowledge, which has no images');
    return registry;
  }

  /** Pulls an image, and returns its id. Throws CONFLICT where a microservice asks for a name that is not its to change. */
  async pull(request: PullByHand, onProgress: (percentage: number) => void, signal: AbortSignal): Promise<string> {
    const { pull } = this.#connected();
    if (request.by) await this.#requireOwn(request, signal);
    return asking(pull(request, onProgress, signal));
  }

  /**
   * A microservice brings images that are not here, and newer ones of names that its application alone uses. Anything else would
   * change what others run, or what a person loaded. The error does not say whose it is.
   */
  async #requireOwn({ pull: { reference }, by }: PullByHand, signal: AbortSignal): Promise<void> {
    const { engine, usersOf, pulledAs, applicationOf } = this.#deps;
    const present = await asking(engine.image(reference, signal));
    if (present === undefined) return;
    const application = applicationOf(by);
    const users = usersOf(formatReference(parseReference(reference)));
    const others = users.filter((user) => user.application !== application);
    const pulled = pulledAs(present);
    // A person may have given a name that nothing uses to an image of this agent.
    if (others.length === 0 && pulled !== undefined && (users.length > 0 || pulled === reference)) return;
    throw new AgentError(
      'CONFLICT',
      `the image ${reference} is here and is not this microservice's alone: a pull that a microservice asks for does not replace it`,
    );
  }

  /** Opens an archive on this machine. Throws INVALID_ARGUMENT for anything but a file with content of its own. */
  open(path: string): Promise<PlainFile> {
    this.#connected();
    return openArchive(path);
  }

  /** Loads the images of an archive when those before it are loaded, and closes it. */
  load(file: PlainFile, progressed: (percentage: number) => void, signal: AbortSignal): Promise<LoadedImage[]> {
    const load = this.#lastLoad.then(async () => {
      await using _ = file;
      signal.throwIfAborted();
      const deps = this.#connected();
      const loaded = await loadArchive(file, deps, progressed, signal);
      // From now on they are images of a person: nothing but a person removes them, and every microservice may use them.
      for (const { id } of loaded) deps.disown(id);
      deps.log.info({ images: loaded.map(({ name, id }) => name ?? id) }, 'Loaded images of an archive');
      return loaded;
    });
    this.#lastLoad = load.catch(() => {});
    return load;
  }

  /** Removes an image, or one of its names; returns what was removed. Nothing is forced. */
  async remove(selector: string, signal?: AbortSignal): Promise<string[]> {
    const { engine, disown, log } = this.#connected();
    const { images, uses } = await this.list(signal);
    const { image, name } = requireSelected(selector, images);
    const containers = uses.filter(({ imageId }) => imageId === image.id).map(({ container }) => container);
    if (containers.length > 0)
      throw new AgentError('CONFLICT', `the image is in use by ${containers.join(', ')}`, { details: { containers } });
    const names = name === undefined ? [...image.tags, ...image.digests] : [name];
    for (const each of names) await asking(engine.removeImage(each, signal));
    // An image without a name, and a name that the engine did not count as the last.
    if (name === undefined) await asking(engine.removeImage(image.id, signal));
    const isLeft = (await asking(engine.listImages(signal))).some(({ id }) => id === image.id);
    if (!isLeft) disown(image.id);
    log.info({ image: image.id, names }, 'Removed an image by hand');
    return isLeft ? names : [...names, image.id];
  }

  #connected(): ImagesDependencies {
    const connection = this.#deps.connection();
    if ('engine' in connection) return this.#deps;
    throw new AgentError('UNAVAILABLE', `the container engine is not connected: ${connection.problem}`);
  }
}

/** A pull as it is asked for; `by`: the uuid of the microservice that asks, empty for the admin. */
interface AskedPull {
  image: string;
  registryId?: number;
  platform: string;
  by: string;
}

function requireSelected(selector: string, images: readonly LocalImage[]): SelectedImage {
  const found = selectImage(selector, images);
  if (!('problem' in found)) return found;
  const { problem, candidates } = found;
  const shown = `selector "${selector.slice(0, 200)}"`;
  if (problem === 'unknown') throw new AgentError('NOT_FOUND', `no image matches the ${shown}`);
  const what =
    problem === 'malformed'
      ? `${shown} is neither a name of an image nor three or more hex digits of an id`
      : `${shown} is ambiguous: ${candidates.slice(0, 10).join(', ')}`;
  throw new AgentError('INVALID_ARGUMENT', what, { details: { field: 'selector', candidates } });
}
