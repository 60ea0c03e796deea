import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { sampleImage } from '../../../hack/sample.ts';
import type {} from '../../../hack/testing/provided.ts';
import { createTestAgent } from '../_agent.ts';
import { FakeController, type View } from '../controller/_fake-controller.ts';
import type { Container } from '../domain/container.ts';
import { cleanUp, until } from '../engines/_contract.ts';
import { DockerEngine } from '../engines/docker/engine.ts';
import { prepareMounts } from '../supervise/mounts.ts';
import { localMachine } from '../system/machine.ts';
import { filesOnDisk } from './files.ts';

/** Volume mounts and tokens in containers of real engines: what a process in a container reads, seen through /proc. */

for (const { kind, url } of inject('engines'))
  describe(kind, () => {
    const folder = mkdtempSync(join(tmpdir(), 'skerry-volume-mounts-'));
    const volumes = join(folder, 'volumes');
    const stop = new AbortController();
    let engine: DockerEngine;
    let controller: FakeController;
    let run: Promise<void>;
    let image: string;

    beforeAll(async () => {
      ({ reference: image } = await pushImage(inject('registryUrl'), 'volume-mounts/sample', '1', await sampleImage()));
      controller = await new FakeController().listen();
      const agent = createTestAgent({
        folder,
        engine: (instance) => {
          engine = new DockerEngine({ url, instance });
          return engine;
        },
        machine: localMachine(folder),
        mountedFiles: filesOnDisk(volumes),
        prepareMounts: (spec, group) => prepareMounts(spec, group, volumes),
      });
      run = agent.run(stop.signal);
      await agent.provision(controller.joinString);
    });

    afterAll(async () => {
      stop.abort();
      await run;
      await cleanUp(engine);
      await controller.close();
      rmSync(folder, { recursive: true, force: true });
    });

    const MOUNT = randomUUID();
    const mount = (data: Record<string, string>) => ({
      uuid: MOUNT,
      name: 'creds',
      version: 1,
      type: 'secret',
      data: Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')])),
    });

    const view = (uuid: string, hostDestination: string): View => ({
      uuid,
      name: `m${uuid.slice(0, 8)}`,
      application: 'shop',
      imageId: image,
      registryId: 1,
      revision: 'r1',
      // Any user may read what is mounted.
      runAsUser: '1000',
      serviceAccount: { name: 'web', rules: [] },
      volumeMappings: [
        {
          hostDestination,
          containerDestination: '/etc/creds',
          accessMode: 'rw',
          type: 'volumeMount',
          scope: 'private',
        },
      ],
    });

    const want = (views: View[], data: Record<string, string>) =>
      controller.change((c) => {
        c.microservices = views;
        c.volumeMounts = [mount(data)];
      });

    const reported = (uuid: string) => until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING');

    async function only(uuid: string): Promise<Container> {
      const own = (await engine.containers()).filter((each) => each.uuid === uuid);
      if (own.length !== 1 || own[0]?.state !== 'running') throw new Error('there is not one container that runs');
      return own[0];
    }

    /** A path as the processes of a container see it. */
    const inside = ({ pid }: Container, path: string) => `/proc/${pid}/root${path}`;
    const text = (container: Container, path: string) => readFileSync(inside(container, path), 'utf8');

    for (const [what, destination, path] of [
      ['a whole volume mount', 'creds', '/etc/creds/db/password'],
      ['a prefix of its keys', 'creds/db', '/etc/creds/password'],
    ] as const)
      test(`a change of a secret reaches the file of a running container that mounts ${what}, without a restart`, async () => {
        const uuid = randomUUID();
        want([view(uuid, destination)], { 'db/password': 'old' });
        await reported(uuid);
        const container = await until('the container', () => only(uuid));
        expect(text(container, path)).toBe('old');
        want([view(uuid, destination)], { 'db/password': 'new', 'db/user': 'ann' });
        await until('the new value', () => text(container, path) === 'new');
        expect(text(container, path.replace('password', 'user'))).toBe('ann');
        expect(await only(uuid)).toMatchObject({ id: container.id, startedAt: container.startedAt });
      });

    test('a change of a secret replaces the container that mounts one key of it', async () => {
      const uuid = randomUUID();
      want([view(uuid, 'creds/db/password')], { 'db/password': 'old' });
      await reported(uuid);
      const before = await until('the container', () => only(uuid));
      expect(text(before, '/etc/creds')).toBe('old');
      want([view(uuid, 'creds/db/password')], { 'db/password': 'new' });
      const after = await until('another container', async () => {
        const container = await only(uuid);
        return container.id !== before.id && container;
      });
      expect(text(after, '/etc/creds')).toBe('new');
    });

    test('a container reads volume mount and token as any user, and can write to neither', async () => {
      const uuid = randomUUID();
      want([view(uuid, 'creds')], { user: 'ann' });
      await reported(uuid);
      const container = await until('the container', () => only(uuid));
      const token = '/var/run/secrets/agent.skerry.dev/serviceaccount/token';
      expect(text(container, token)).toMatch(/^ey[\w-]+\.[\w-]+\.[\w-]+$/);
      for (const path of ['/etc/creds/user', token]) {
        expect(statSync(inside(container, path)).mode & 0o777).toBe(0o644);
        expect(() => writeFileSync(inside(container, path), 'x')).toThrow(/EROFS/);
      }
      const { notHonoured } = controller.microservice(uuid) ?? {};
      expect(notHonoured).toContainEqual({
        field: 'volumeMappings',
        reason: 'volume mounts are read-only: /etc/creds',
      });
    });
  });
