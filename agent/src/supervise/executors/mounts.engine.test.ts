import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../../hack/image.ts';
import { sampleImage } from '../../../../hack/sample.ts';
import type {} from '../../../../hack/testing/provided.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import { cleanUp, findContainer, makeSpec, prepare, until } from '../../engines/_contract.ts';
import type { Seen } from '../../engines/_contract-row.ts';
import { openEngine } from '../../engines/open.ts';
import { ownLimits } from '../../machine/machine.ts';
import { prepareMounts } from './mounts.ts';

/** Two users of one shared volume, on every engine. */

for (const { kind, url } of inject('everyEngine'))
  describe(kind, () => {
    const instance = randomUUID().replaceAll('-', '');
    const engine = openEngine({ url, instance });
    const folder = temporaryFolder();
    let facts: EngineFacts;
    let image: string;

    beforeAll(async () => {
      ({ reference: image } = await pushImage(inject('registryUrl'), 'mounts/sample', '1', await sampleImage()));
      facts = await prepare(engine, image);
    });

    afterAll(async () => {
      await cleanUp(engine);
    });

    /** Whether a container that runs as a user can write to the shared volume. */
    async function writes(runAsUser: string): Promise<boolean | undefined> {
      const spec = makeSpec({
        facts,
        limits: ownLimits(),
        instance,
        volumesDirectory: folder,
        view: {
          imageId: image,
          commands: ['see', '/data'],
          runAsUser,
          volumeMappings: [
            {
              type: 'volume',
              scope: 'shared',
              hostDestination: 'pool',
              containerDestination: '/data',
              accessMode: 'rw',
            },
          ],
        },
      });
      spec.mounts = prepareMounts(spec, undefined, folder);
      const { id } = await engine.create(spec);
      await engine.start(id);
      await until('the end', async () => (await findContainer(engine, id)).state === 'exited');
      const lines: string[] = [];
      for await (const { line } of engine.logs(id, { tail: 100 })) lines.push(line);
      // A file belongs to the user that wrote it; the other user writes one of its own.
      rmSync(join(folder, 'shared/pool/.written'), { force: true });
      return (JSON.parse(lines.join('')) as Seen).folders['/data']?.writable;
    }

    test('a shared volume is writable for the second user as it is for the first', async () => {
      expect(await writes('1000')).toBe(true);
      expect(await writes('2000')).toBe(true);
    });
  });
