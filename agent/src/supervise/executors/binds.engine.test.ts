import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../../hack/image.ts';
import { sampleImage } from '../../../../hack/sample.ts';
import type {} from '../../../../hack/testing/provided.ts';
import type { VolumeMapping } from '../../../../src/api/container/index.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { createTestAgent, runAgent } from '../../_agent.ts';
import { policySchema } from '../../domain/policy.ts';
import type { CompleteEngine } from '../../engine-port/engine.ts';
import { cleanUp, until } from '../../engines/_contract.ts';
import { openTestEngine } from '../../engines/_outside.ts';
import { FakeController, type View } from '../../link/_fake-controller.ts';
import { fileIdentity, followLinks, locate, mountedPlaces, mountsBelow } from '../../machine/disk.ts';
import { localMachine } from '../../machine/machine.ts';

/** A path that is exchanged between the check and the mount must not give a container access. */

for (const tested of inject('everyEngine'))
  describe(tested.kind, () => {
    const folder = temporaryFolder();
    const at = (path: string) => join(folder, path);
    let end: () => Promise<void>;
    /** done between the check and the start */
    let between = () => {};
    let engine: CompleteEngine;
    let controller: FakeController;
    let image: string;

    beforeAll(async () => {
      ({ reference: image } = await pushImage(inject('registryUrl'), 'binds/sample', '1', await sampleImage()));
      for (const path of ['srv/data/sub', 'srv/mine', 'secret']) mkdirSync(at(path), { recursive: true });
      controller = await new FakeController().listen();
      const agent = createTestAgent({
        folder: at('agent'),
        engine: (instance) => {
          engine = openTestEngine(tested, instance);
          const start = engine.start.bind(engine);
          engine.start = async (id, signal) => {
            between();
            await start(id, signal);
          };
          return engine;
        },
        machine: localMachine(folder),
        policy: policySchema.parse({ bindPrefixes: [at('srv')] }),
        places: { follow: followLinks, identity: fileIdentity, mountsBelow, locate, mountedPlaces },
      });
      end = runAgent(agent);
      await agent.provision(controller.joinString);
    });

    afterAll(async () => {
      await end();
      await cleanUp(engine);
      await controller.close();
    });

    const view = (name: string, source: string, accessMode: VolumeMapping['accessMode'] = 'rw'): View => ({
      uuid: randomUUID(),
      name,
      application: 'shop',
      imageId: image,
      registryId: 1,
      revision: 'r1',
      volumeMappings: [
        { type: 'bind', hostDestination: source, containerDestination: '/mnt/x', accessMode, scope: 'private' },
      ],
    });

    const reported = (uuid: string, state: string) =>
      until(`${state}`, () => {
        const status = controller.microservice(uuid);
        return status?.status === state && status;
      });

    test('a container never starts with a bind below a directory that another container may write to', async () => {
      const writer = view('writer', at('srv/data'));
      const reader = view('reader', at('srv/data/sub'), 'ro');
      const same = view('same', at('srv/data'));
      controller.change({ microservices: [writer] });
      await reported(writer.uuid, 'RUNNING');
      controller.change({ microservices: [writer, reader, same] });
      await reported(same.uuid, 'RUNNING');
      const { reason, errorMessage } = await reported(reader.uuid, 'FAILED');
      expect({ reason, errorMessage }).toEqual({
        reason: 'PolicyRefused',
        // Both other containers may write there; the message names the first that the agent found.
        errorMessage: expect.stringMatching(new RegExp(`shop\\.(writer|same) may write to ${at('srv/data')},`)),
      });
    });

    test('a container whose bind was exchanged between check and mount is stopped, with the reason PolicyRefused', async () => {
      between = () => {
        between = () => {};
        renameSync(at('srv/mine'), at('srv/moved'));
        symlinkSync(at('secret'), at('srv/mine'));
      };
      const victim = view('victim', at('srv/mine'));
      controller.change({ microservices: [victim] });
      const { reason, errorMessage } = await reported(victim.uuid, 'FAILED');
      expect({ reason, errorMessage }).toEqual({
        reason: 'PolicyRefused',
        errorMessage: expect.stringContaining('was exchanged for something else'),
      });
      const [container] = (await engine.containers()).filter(({ uuid }) => uuid === victim.uuid);
      expect(container?.state).not.toBe('running');
      expect(readdirSync(at('secret'))).toEqual([]);
    });
  });
