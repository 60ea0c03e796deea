import { readFileSync } from 'node:fs';
import { buildImage, buildIndex, type Image } from './image.ts';
import { programFiles } from './shell-image.ts';
import { buildTool } from './tool.ts';

/** An image with what we need of the public image of nats-server, which tests cannot pull: `nats-server`, a shell, `sed` and `wget` in the path. */
export async function busServerImage(): Promise<Image> {
  const server = await buildTool('nats', 'github.com/nats-io/nats-server/v2');
  const files = [
    { path: '/bin/nats-server', content: readFileSync(server), mode: 0o755 },
    ...programFiles({ sh: '/bin/sh', sed: '/bin/sed', wget: '/usr/bin/wget' }),
    { path: '/tmp' },
    { path: '/data' },
  ];
  return buildIndex([buildImage({ cmd: ['nats-server'], env: { PATH: '/bin' }, files })]);
}
