import { z } from 'zod';
import type { PullByHand } from '../../../domain/step.ts';
import type { ImageUse, LocalImage } from '../../../engine-port/images.ts';
import type { PlainFile } from '../../../machine/plain-file.ts';
import { LocalApiError } from '../../server/errors.ts';
import { choice, operationReply } from '../../server/fields.ts';
import type { LocalOperation, Operations, OperationWork } from '../../server/operations.ts';
import { routesWith } from '../../server/route.ts';
import { type PrunableAgent, pruneReply, pruneReport } from '../system/prune-report.ts';
import { imageRows } from './rows.ts';

/** A pull of an image that was asked for on this machine. */
export interface PullMembers {
  /** 0 to 100 */
  progress: number;
  /** as it was asked for */
  image: string;
  /** what the engine knows it by */
  resolvedImage: string;
  registryId?: number | undefined;
  platform: string;
  engine: string;
}

/** A load of an archive of images. */
export interface LoadMembers {
  path: string;
  engine: string;
  /** 0 to 100, of the reading */
  progress: number;
  /** a name that is null: the archive gives the image none */
  loaded: { name: string | null; id: string }[];
  count: number;
}

/** What the routes of images need of the agent. */
export interface ImagesRouteDependencies {
  agent: {
    readonly images: {
      /** the kind of the engine */
      readonly engine: string;
      /** of this machine */
      readonly platform: string;
      list(signal?: AbortSignal): Promise<{ images: readonly LocalImage[]; uses: readonly ImageUse[] }>;
      pullRequest(asked: { image: string; registryId?: number | undefined; platform: string; by: string }): PullByHand;
      pull(request: PullByHand, onProgress: (percentage: number) => void, signal: AbortSignal): Promise<string>;
      open(path: string): Promise<PlainFile>;
      load(
        file: PlainFile,
        progressed: (percentage: number) => void,
        signal: AbortSignal,
      ): Promise<{ name?: string; id: string }[]>;
      remove(selector: string, signal?: AbortSignal): Promise<string[]>;
    };
    readonly imagePulls: Operations<PullMembers>;
    readonly imageLoads: Operations<LoadMembers>;
  } & PrunableAgent;
}

const { route } = routesWith<ImagesRouteDependencies>('images');

/** ms: a pull that is waited for has no time limit of its own */
const ENDLESS = 2 ** 31 - 1;

/** The images of the engine. */
export const IMAGE_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/images',
    operation: 'listImages',
    summary: 'The images of the engine, a row for each name',
    access: { resource: 'images', verb: 'get' },
    errors: [503],
    reply: { form: 'envelope', schema: () => z.object({ items: z.array(imageRow()), count: z.int() }) },
    handler: async ({ signal, deps: { agent } }) => {
      const { images, uses } = await agent.images.list(signal);
      const items = imageRows(images, uses, agent.images.engine);
      return { items, count: items.length };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/images:pull',
    operation: 'pullImage',
    summary: 'Pulls an image',
    access: { resource: 'images/pull', verb: 'create' },
    body: () =>
      z.strictObject({
        image: z
          .string('a reference of an image')
          .min(1, 'a reference of an image')
          .max(512, 'a reference of an image'),
        registryId: z
          .int('the number of a registry')
          .min(1, 'the number of a registry')
          .optional()
          .describe('absent: the host that the image names'),
        platform: z
          .string(PLATFORM)
          .regex(/^[a-z0-9]{1,32}\/[a-z0-9_]{1,32}(?:\/[a-z0-9.]{1,32})?$/, PLATFORM)
          .optional()
          .describe(`${PLATFORM}; absent: the platform of this machine`),
        async: z.boolean().default(false).describe('answer at once, with an operation'),
      }),
    errors: [404, 409, 503],
    reply: {
      form: 'envelope',
      schema: () => z.union([pullOperation(), pulledReply()]),
      status: { other: 202, when: (data) => 'operationId' in data },
    },
    handler: async ({ body, signal, caller: { microservice: by }, deps: { agent } }) => {
      const { image, registryId, platform = '', async: isAsync } = body;
      const { images, imagePulls } = agent;
      const request = images.pullRequest({ image, registryId, platform, by });
      const members = {
        ...{ progress: 0, image, resolvedImage: request.pull.reference, registryId },
        ...{ platform: platform || images.platform, engine: images.engine },
      };
      const work: OperationWork<PullMembers> = async (update, until) => {
        await images.pull(request, (progress) => update({ progress }), until);
        return { progress: 100 };
      };
      const begun = imagePulls.begin(members, work, by);
      if (isAsync) return begun;
      const { status, error } = await imagePulls.ended(begun.operationId, ENDLESS, signal);
      if (error) throw new LocalApiError(error.code, error.message, error.details);
      if (status !== 'succeeded') throw new LocalApiError('UNAVAILABLE', 'the pull has not ended');
      const { progress, ...pulled } = members;
      return { status: 'ok' as const, ...pulled, message: `Pulled ${members.resolvedImage}` };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/images:pull/{operationId}',
    operation: 'getImagePull',
    summary: 'How far a pull is',
    access: { resource: 'images/pull/status', verb: 'get' },
    errors: [404],
    reply: { form: 'envelope', schema: pullOperation },
    handler: ({ params: { operationId }, caller, deps: { agent } }) =>
      agent.imagePulls.get(operationId, caller.microservice),
  }),
  route({
    method: 'POST',
    path: '/v1/images:load',
    operation: 'loadImages',
    summary: 'Loads the images of an archive that is a file of this machine',
    access: 'admin',
    body: () => {
      const path = 'an absolute path of a file of this machine';
      return z.strictObject({ path: z.string(path).min(1, path).describe(path) });
    },
    errors: [503],
    reply: { form: 'envelope', schema: loadOperation, status: 202 },
    handler: async ({ body: { path }, deps: { agent } }) => {
      const { images, imageLoads } = agent;
      const file = await images.open(path);
      const members: LoadMembers = { path, engine: images.engine, progress: 0, loaded: [], count: 0 };
      return beginOrClose(file, () =>
        imageLoads.begin(members, async (update, until) => {
          const loaded = await images.load(file, (progress) => update({ progress }), until);
          const named = loaded.map(({ name = null, id }) => ({ name, id }));
          return { progress: 100, loaded: named, count: named.length };
        }),
      );
    },
  }),
  route({
    method: 'GET',
    path: '/v1/images:load/{operationId}',
    operation: 'getImageLoad',
    summary: 'How far a load is',
    access: 'admin',
    errors: [404],
    reply: { form: 'envelope', schema: loadOperation },
    handler: ({ params: { operationId }, deps: { agent } }) => agent.imageLoads.get(operationId),
  }),
  route({
    method: 'POST',
    path: '/v1/images:prune',
    operation: 'pruneImages',
    summary: 'Removes the images that this agent pulled and nothing uses',
    access: 'admin',
    query: () => z.object({ mode: choice(['dangling'], 'dangling', 'the only mode') }),
    errors: [503],
    reply: { form: 'envelope', schema: pruneReply },
    handler: ({ deps: { agent } }) => pruneReport('images', agent),
  }),
  route({
    method: 'POST',
    path: '/v1/images:remove',
    operation: 'removeImage',
    summary: 'Removes an image that no container uses, or one of its names',
    access: 'admin',
    body: () => {
      const selector = 'a name of an image, its id, or the first hex digits of its id';
      return z.strictObject({
        selector: z.string(selector).min(1, selector).max(512, selector).describe(selector),
      });
    },
    errors: [404, 409, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          selector: z.string(),
          removed: z.array(z.string()).describe('names, and the id of an image that is no longer here'),
          engine: z.string(),
          message: z.string(),
        }),
    },
    handler: async ({ body: { selector }, signal, deps: { agent } }) => {
      const removed = await agent.images.remove(selector, signal);
      const message = `Removed ${removed.join(', ')}`;
      return { status: 'ok' as const, selector, removed, engine: agent.images.engine, message };
    },
  }),
];

const PLATFORM = 'a platform, os/arch or os/arch/variant';

function imageRow() {
  const size = () => z.int().nullable().describe('bytes; null where the engine does not count them');
  const human = () => z.string().nullable().describe('in powers of 1000');
  return z.object({
    id: z.string(),
    shortId: z.string().describe('12 hex digits'),
    repository: z.string().describe('`<none>`: the image has no name'),
    tag: z.string().describe('`<none>`: the name has none'),
    digest: z.string().nullable().describe('of its manifest in this repository'),
    createdAt: z.string().nullable(),
    contentSizeBytes: size(),
    contentSizeHuman: human(),
    diskUsageBytes: size(),
    diskUsageHuman: human(),
    inUse: z.boolean().describe('a container of any owner, running or not, was made from it'),
    engine: z.string(),
  });
}

const pullMembers = () => ({
  image: z.string(),
  resolvedImage: z.string(),
  registryId: z.int().optional(),
  platform: z.string(),
  engine: z.string(),
});

function pullOperation() {
  return operationReply().extend({ progress: z.int().describe('0 to 100'), ...pullMembers() });
}

function pulledReply() {
  return z.object({ status: z.literal('ok'), ...pullMembers(), message: z.string() });
}

function loadOperation() {
  return operationReply().extend({
    path: z.string(),
    engine: z.string(),
    progress: z.int().describe('0 to 100, of the reading'),
    loaded: z.array(
      z.object({ name: z.string().nullable().describe('null: the archive gives the image none'), id: z.string() }),
    ),
    count: z.int(),
  });
}

/** A file that no operation reads is closed. */
async function beginOrClose<T>(file: PlainFile, begin: () => LocalOperation<T>): Promise<LocalOperation<T>> {
  try {
    return begin();
  } catch (error) {
    await file[Symbol.asyncDispose]();
    throw error;
  }
}
