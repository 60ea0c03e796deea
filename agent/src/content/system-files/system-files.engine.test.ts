import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../../hack/image.ts';
import { sampleImage } from '../../../../hack/sample.ts';
import type {} from '../../../../hack/testing/provided.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { createTestAgent, runAgent } from '../../_agent.ts';
import type { Container } from '../../engine-port/container.ts';
import type { CompleteEngine } from '../../engine-port/engine.ts';
import { cleanUp, until } from '../../engines/_contract.ts';
import { openEngine } from '../../engines/open.ts';
import { FakeController, type View } from '../../link/_fake-controller.ts';
import { localMachine } from '../../machine/machine.ts';
import { filesOnDisk } from '../../machine/mounted-files.ts';
import { prepareMounts } from '../../supervise/executors/mounts.ts';
import { mounted } from '../volume-mounts/_mount.ts';

/** Files of the system in containers of real engines: what a process in a container reads, seen through /proc. */

for (const { kind, url } of inject('everyEngine'))
  describe(kind, () => {
    const folder = temporaryFolder();
    const volumes = join(folder, 'volumes');
    let engine: CompleteEngine;
    let controller: FakeController;
    let image: string;
    let end: () => Promise<void>;

    beforeAll(async () => {
      ({ reference: image } = await pushImage(inject('registryUrl'), 'system-files/sample', '1', await sampleImage()));
      controller = await new FakeController().listen();
      const agent = createTestAgent({
        folder,
        engine: (instance) => {
          engine = openEngine({ url, instance });
          return engine;
        },
        machine: localMachine(folder),
        mountedFiles: filesOnDisk(volumes),
        prepareMounts: (spec, group) => prepareMounts(spec, group, volumes),
      });
      end = runAgent(agent);
      await agent.provision(controller.joinString);
    });

    afterAll(async () => {
      await end();
      await cleanUp(engine);
      await controller.close();
    });

    const view = (uuid: string, hostDestination: string): View => ({
      uuid,
      name: `m${uuid.slice(0, 8)}`,
      application: 'shop',
      imageId: image,
      registryId: 1,
      revision: 'r1',
      isSystem: true,
      runAsUser: '1000',
      volumeMappings: [mounted(hostDestination, '/etc/tls')],
    });

    const want = (views: View[], serial: number) =>
      controller.change({
        microservices: views,
        systemFiles: [
          { name: 'certificates', files: { 'tls.crt': `certificate ${serial}`, 'tls.key': `key ${serial}` } },
        ],
      });

    async function only(uuid: string): Promise<Container> {
      const own = (await engine.containers()).filter((each) => each.uuid === uuid);
      if (own.length !== 1 || own[0]?.state !== 'running') throw new Error('there is not one container that runs');
      return own[0];
    }

    const inside = ({ pid }: Container, path: string) => `/proc/${pid}/root${path}`;
    const text = (container: Container, path: string) => readFileSync(inside(container, path), 'utf8');
    const report = () =>
      until('the report', () => controller.said.systemFiles?.digest === controller.due.systemFiles, 60_000);

    test('a container that binds a set reads a renewed certificate with its key, without being replaced', async () => {
      const uuid = randomUUID();
      want([view(uuid, 'system:certificates')], 1);
      const container = await until('the container', () => only(uuid));
      const read = () => ['tls.crt', 'tls.key'].map((name) => text(container, `/etc/tls/${name}`));
      expect(read()).toEqual(['certificate 1', 'key 1']);
      expect(() => writeFileSync(inside(container, '/etc/tls/tls.key'), 'x')).toThrow(/EROFS/);
      want([view(uuid, 'system:certificates')], 2);
      await until('the new key', () => read()[1] === 'key 2');
      expect(read()).toEqual(['certificate 2', 'key 2']);
      expect(await only(uuid)).toMatchObject({ id: container.id, startedAt: container.startedAt });
      await report();
    });

    test('a container that binds one file is replaced when the file changes', async () => {
      const uuid = randomUUID();
      want([view(uuid, 'system:certificates/tls.crt')], 3);
      const before = await until('the container', () => only(uuid));
      expect(text(before, '/etc/tls')).toBe('certificate 3');
      want([view(uuid, 'system:certificates/tls.crt')], 4);
      const after = await until('another container', async () => {
        const container = await only(uuid);
        return container.id !== before.id && container;
      });
      expect(text(after, '/etc/tls')).toBe('certificate 4');
      await report();
    });
  });
