import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { listenForTest } from '../../../../testing/local-server.ts';
import { DockerEngine } from './engine.ts';

const COUNT = 20;

/** A podman with images of two layers, of which the first two images share the lower one. */
async function podman() {
  const ids = new Set(Array.from({ length: COUNT }, (_, at) => `${at + 10}`.repeat(32)));
  const asked: string[] = [];
  const base = (id: string) => (id < '12' ? 'base' : `base of ${id}`);
  const answers = (path: string): unknown => {
    if (path === '/version') return { ApiVersion: '1.41', Version: '4.3.1', Components: [{ Name: 'Podman Engine' }] };
    if (path === '/info') return {};
    if (path === '/images/json') return [...ids].map((Id) => ({ Id: `sha256:${Id}` }));
    const [, id = '', what] = /^\/images\/(?:sha256:)?(\w+)\/(\w+)$/.exec(path) ?? [];
    if (what === 'history') return [{ Size: 70 }, { Size: 30 }];
    return ids.has(id) ? { Size: 100, RootFS: { Layers: [base(id), `top of ${id}`] } } : undefined;
  };
  const server = createServer(({ url = '' }, response) => {
    const path = url.replace(/^\/v[\d.]+/, '').replace(/\?.*/, '');
    asked.push(path);
    const answer = answers(path);
    response.writeHead(answer === undefined ? 404 : 200).end(JSON.stringify(answer ?? {}));
  });
  const engine = new DockerEngine({ url: `http://127.0.0.1:${await listenForTest(server)}`, instance: 'i1' });
  await engine.connect();
  asked.length = 0;
  return { engine, ids, asked };
}

test('the layers of an image of podman are asked for once, however many images are counted', async () => {
  const { engine, ids, asked } = await podman();
  const bytes: (number | undefined)[] = [];
  for (const id of [...ids]) {
    bytes.push(await engine.imageBytes(`sha256:${id}`));
    ids.delete(id);
  }
  // The second of both has the shared layer for itself once the first is removed.
  expect(bytes).toEqual([70, ...Array.from({ length: COUNT - 1 }, () => 100)]);
  expect(asked.filter((path) => path.endsWith('/json')).length).toBeLessThanOrEqual(3 * COUNT);
});

test('an image that is pulled again after its removal is looked at again', async () => {
  const { engine, ids, asked } = await podman();
  const [first = '', second = ''] = ids;
  await engine.imageBytes(first);
  ids.delete(second);
  await engine.imageBytes(first);
  ids.add(second);
  asked.length = 0;
  expect(await engine.imageBytes(first)).toBe(70);
  expect(asked).toContain(`/images/${second}/json`);
});
