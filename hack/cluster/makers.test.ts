import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { ROOT } from '../paths.ts';
import { makeCluster, NODE_IMAGES } from './makers.ts';

/** `make e2e CLUSTER=` beside an engine that says what the test wants, up to a kubeconfig. */

let dir: string;
beforeEach(() => {
  dir = temporaryFolder();
});

/** A docker engine: which images it has, and what it says of others. */
async function startEngine(has: readonly string[]): Promise<string> {
  const noHost = 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host';
  const server = createServer(({ url = '' }, response) => {
    const answer = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body));
    if (url === '/version') return answer(200, { Components: [{ Name: 'Engine' }] });
    if (has.some((image) => url === `/images/${image}/json`)) return answer(200, {});
    if (url.startsWith('/distribution/')) return answer(500, { message: noHost });
    return answer(404, { message: 'no such image' });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  return `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function e2e(env: NodeJS.ProcessEnv): Promise<{ code: number | null; err: string }> {
  const child = spawn(process.execPath, [join(ROOT, 'hack/cluster/main.ts')], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let err = '';
  child.stderr.on('data', (data) => {
    err += data;
  });
  const [code] = await once(child, 'close');
  return { code, err };
}

describe('make e2e says in one line', () => {
  test.each(['k3s', 'kind'] as const)('why the image of %s cannot be pulled', async (maker) => {
    const engine = await startEngine([]);
    const { code, err } = await e2e({ CLUSTER: maker, DOCKER_HOST: engine, KUBECONFIG: '/of/the/user' });
    expect(err).toMatch(/^[^\n]*\n$/);
    expect(err).toContain(
      `CLUSTER=${maker}: docker at ${engine} has no image ${NODE_IMAGES[maker]} and cannot pull it`,
    );
    expect(err).toContain('lookup registry-1.docker.io: no such host');
    expect(code).toBe(2);
  });

  test.each([
    [
      'that no docker answers',
      { CLUSTER: 'k3s', DOCKER_HOST: 'tcp://127.0.0.1:1' },
      /needs docker, and nothing answers/,
    ],
    ['which clusters can be made', { CLUSTER: 'minikube' }, /^CLUSTER="minikube" must be k3s or kind\n$/],
    ['what it needs', {}, /KUBECONFIG=<file> IMAGE=<repository:tag>.* CLUSTER=k3s or CLUSTER=kind/],
  ])('%s', async (_, env, message) => {
    const { code, err } = await e2e(env);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringMatching(message) });
    expect(err).toMatch(/^[^\n]*\n$/);
  });
});

describe('a cluster of kind', () => {
  /** A program in its place, which writes down its arguments, and fails at one of them. */
  async function make(failing = 'none') {
    const said = join(dir, 'said');
    const text = `#!/bin/sh
[ "$1" = version ] && echo 'kind v99.0.0 go1.26 linux/amd64' && exit
echo "$*" >> ${said}
[ "$1" = create ] && echo 'of kind' > ${join(dir, 'kubeconfig')}
[ "$1" != ${failing} ]
`;
    writeFileSync(join(dir, 'kind'), text);
    chmodSync(join(dir, 'kind'), 0o755);
    const engine = await startEngine([NODE_IMAGES.kind]);
    const archive = async () => Buffer.from('an image');
    const env = { PATH: `${dir}:${process.env.PATH}`, DOCKER_HOST: engine };
    const { signal } = new AbortController();
    const made = makeCluster({ maker: 'kind', name: 'one', dir, archive, env, log: () => {}, signal });
    return { made, said: () => readFileSync(said, 'utf8').trim().split('\n') };
  }
  const kubeconfig = () => join(dir, 'kubeconfig');
  const create = () => `create cluster --image ${NODE_IMAGES.kind} --kubeconfig ${kubeconfig()} --wait 3m --name one`;
  const load = () => `load image-archive ${join(dir, 'controller.tar')} --name one`;
  const remove = () => `delete cluster --name one --kubeconfig ${kubeconfig()}`;

  test('has a kubeconfig and our image, and goes when its stories have ended', async () => {
    const { made, said } = await make();
    {
      await using cluster = await made;
      expect(readFileSync(cluster.kubeconfig, 'utf8')).toBe('of kind\n');
      expect(said()).toEqual([create(), load()]);
    }
    expect(said()).toEqual([create(), load(), remove()]);
  });

  test('goes as well when it does not take our image', async () => {
    const { made, said } = await make('load');
    await expect(made).rejects.toThrow();
    expect(said()).toEqual([create(), load(), remove()]);
  });
});
