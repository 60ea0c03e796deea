import { resolve } from 'node:path';
import { duration, table } from '../../../../src/terminal/output.ts';
import { CliError } from '../../local-api/client.ts';
import { type Command, registryIn, required, show } from './command.ts';
import { APPLY_BUDGET, type PolledOperation, untilEnded } from './operations.ts';
import { showPruned } from './prune.ts';

/** An image as the local API lists it, as far as it is shown. */
interface ImageItem {
  shortId: string;
  repository: string;
  tag: string;
  createdAt: string | null;
  diskUsageHuman: string | null;
  inUse: boolean;
}

/** The images of the engine of this machine. */
export const IMAGE_COMMANDS: readonly Command[] = [
  {
    name: 'image ls',
    about: 'List the images of the container engine, of whatever owner',
    run: async (context) => {
      const data = await context.client.call<{ items: ImageItem[] }>('GET', '/v1/images');
      show(context, data, () => {
        if (data.items.length === 0) return 'No images on this machine\n';
        const rows = data.items.map(({ repository, tag, shortId, createdAt, diskUsageHuman, inUse }) => [
          ...[repository, tag, shortId, ageOf(createdAt), diskUsageHuman ?? '', inUse ? 'yes' : 'no'],
        ]);
        return table(['REPOSITORY', 'TAG', 'ID', 'AGE', 'SIZE', 'IN USE'], rows);
      });
    },
  },
  {
    name: 'image pull',
    usage: '<image>',
    words: { max: 1 },
    about: 'Pull an image',
    flags: {
      registry: {
        short: 'r',
        value: '<id>',
        about: 'a registry that this machine knows (default: the host in the name)',
      },
      platform: { value: '<os/arch>', about: 'os/arch[/variant] (default: the platform of this machine)' },
    },
    examples: ['image pull registry.example.com/shop/web:2'],
    run: async (context) => {
      const { client, flags } = context;
      const image = required(context, 'the image');
      const body = { image, registryId: registryIn(flags), platform: flags.platform, async: true };
      const begun = await client.call<PolledOperation & { resolvedImage: string }>('POST', '/v1/images:pull', { body });
      const ended = await untilEnded(context, begun, {
        path: '/v1/images:pull',
        budget: APPLY_BUDGET,
        what: begun.resolvedImage,
        hint: 'See: skerry-agent image ls',
      });
      show(context, ended, () => `${ended.resolvedImage}: pulled\n`);
    },
  },
  {
    name: 'image load',
    usage: '[file]',
    words: { max: 1 },
    about: 'Load the images of an archive (docker save, or an OCI layout as tar; gzip as well)',
    flags: { file: { short: 'f', value: '<file>', about: 'the archive' } },
    examples: ['image load -f web-2.tar.gz'],
    run: async (context) => {
      const { client, flags, words } = context;
      const file = flags.file ?? words[0];
      if (typeof file !== 'string') throw new CliError('INVALID_ARGUMENT', 'the archive is missing', 'See --help.');
      const body = { path: resolve(file) };
      type Load = PolledOperation & { loaded: { name: string | null; id: string }[] };
      const begun = await client.call<Load>('POST', '/v1/images:load', { body });
      const ended = await untilEnded(context, begun, {
        path: '/v1/images:load',
        budget: APPLY_BUDGET,
        what: file,
        hint: 'See: skerry-agent image ls',
      });
      show(context, ended, () => ended.loaded.map(({ name, id }) => `${name ?? id}: loaded\n`).join(''));
    },
  },
  {
    name: 'image prune',
    about: 'Remove images that this agent pulled and nothing uses any more',
    run: async (context) => showPruned(context, await context.client.call('POST', '/v1/images:prune')),
  },
  {
    name: 'image rm',
    usage: '<image>',
    words: { max: 1 },
    about: 'Remove an image that no container uses, by its name or its id',
    examples: ['image rm web:1', 'image rm 3f2a9c'],
    run: async (context) => {
      const body = { selector: required(context, 'the image') };
      const data = await context.client.call<{ removed: string[] }>('POST', '/v1/images:remove', { body });
      show(context, data, () => data.removed.map((each) => `${each}: removed\n`).join(''));
    },
  },
];

const ageOf = (at: string | null) => (at === null ? '' : duration((Date.now() - Date.parse(at)) / 1000));
