import { expect, inject, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { callEngine, loadImage, probeEngine } from '../engine-api.ts';
import { saveImage } from '../image.ts';
import { shellImage } from '../shell-image.ts';
import { makeCluster, NODE_IMAGES } from './makers.ts';

const engineUrl = inject('engineUrl');
const isDocker = (await probeEngine(engineUrl)) === 'docker';

test.runIf(isDocker)('k3s in a container that does not come up leaves no container behind', async () => {
  // It ends at once, where the machine allows privileged containers at all.
  const standIn = shellImage({ entrypoint: ['/bin/sh', '-c', 'exit 1'], ports: [6443] });
  await loadImage(engineUrl, saveImage(standIn, NODE_IMAGES.k3s));
  onTestFinished(async () => {
    await callEngine(engineUrl, 'DELETE', `/v1.41/images/${NODE_IMAGES.k3s}?force=true`);
  });
  const dir = temporaryFolder();
  const said: string[] = [];
  const made = makeCluster({
    ...{ maker: 'k3s', name: 'skerry-e2e-one', dir, archive: async () => Buffer.from('an image') },
    ...{ env: { ...process.env, DOCKER_HOST: engineUrl }, signal: new AbortController().signal },
    log: (line) => said.push(line),
  });
  await expect(made).rejects.toThrow();
  expect(said).toEqual([
    `Starting k3s: ${NODE_IMAGES.k3s}`,
    'If this is killed, "docker rm --force --volumes skerry-e2e-one" removes what it made',
  ]);
  const filters = encodeURIComponent(JSON.stringify({ name: ['skerry-e2e-one'] }));
  expect(await callEngine(engineUrl, 'GET', `/v1.41/containers/json?all=true&filters=${filters}`)).toEqual([]);
});
