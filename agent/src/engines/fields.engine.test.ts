import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, inject, test } from 'vitest';
import { buildImage, buildIndex, pushImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import type {} from '../../../hack/testing/provided.ts';
import { silentLog } from '../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { notHonoured } from '../domain/container-spec.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import { systemClock } from '../machine/clock.ts';
import { ownLimits } from '../machine/machine.ts';
import { HealthChecks } from '../supervise/health-checks.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { cleanUp, findContainer, makeSpec, prepare, until } from './_contract.ts';
import type { Field, Fixture, Running, Seen } from './_contract-row.ts';
import { FIELDS, makeSources } from './_fields.ts';
import { openTestEngine, outsideOf } from './_outside.ts';

/** Every row of the contract on every engine. The results are written to SKERRY_FIELDS_OUT if that is set. */

const registry = new URL(inject('registryUrl')).host;
const image = `${registry}/fields/sample:1`;
const manifold = `${registry}/fields/manifold:1`;
const limits = ownLimits();
const results: { kind: string; version: string; fields: Record<string, string> }[] = [];

beforeAll(async () => {
  const sample = await sampleImage({ env: { OF_THE_IMAGE: 'fields' } });
  await pushImage(inject('registryUrl'), 'fields/sample', '1', sample);
  const files = [{ path: '/nothing', content: '' }];
  const images = (['amd64', 'arm64'] as const).map((architecture) => buildImage({ files, architecture }));
  await pushImage(inject('registryUrl'), 'fields/manifold', '1', buildIndex(images));
});

afterAll(() => {
  const file = process.env.SKERRY_FIELDS_OUT;
  if (file) writeFileSync(file, JSON.stringify(results));
});

for (const tested of inject('everyEngine'))
  describe(tested.kind, () => {
    const { kind } = tested;
    const outside = outsideOf(tested);
    const instance = randomUUID().replaceAll('-', '');
    const engine = openTestEngine(tested, instance);
    const clock = systemClock();
    const health = new HealthChecks({ engine, clock, log: silentLog, changed: () => {} });
    const folder = temporaryFolder();
    const outcome = { kind: kind as string, version: '', fields: {} as Record<string, string> };
    let facts: EngineFacts;

    beforeAll(async () => {
      facts = await prepare(engine, image);
      outcome.version = facts.version;
      results.push(outcome);
    });

    afterAll(async () => {
      health.stop();
      await cleanUp(engine);
      await engine.removeImage(image);
    });

    /** Creates and starts a container, which is removed at the end of its block. */
    async function start(change: Partial<MicroserviceView>) {
      const spec = makeSpec({ facts, limits, instance, volumesDirectory: folder, view: { imageId: image, ...change } });
      makeSources(spec.mounts);
      const { id } = await engine.create(spec);
      const end = async () => {
        await engine.stop(id, 0);
        await engine.remove(id);
      };
      try {
        await engine.start(id);
      } catch (error) {
        await end();
        throw error;
      }
      return { id, [Symbol.asyncDispose]: end };
    }

    /** What a process in a container sees. */
    async function see(change: Partial<MicroserviceView>, folders: readonly string[] = []): Promise<Seen> {
      await using container = await start({ commands: ['see', ...folders], ...change });
      await until('the end', async () => (await findContainer(engine, container.id)).state === 'exited');
      const lines: string[] = [];
      for await (const { line } of engine.logs(container.id, { tail: 100 })) lines.push(line);
      try {
        // An engine may split a long line.
        return JSON.parse(lines.join('')) as Seen;
      } catch {
        throw new Error(`the container has not seen anything: ${lines.join(' ')}`);
      }
    }

    function running(id: string, fixture: Fixture): Running {
      const look = async () => {
        health.follow(await engine.containers());
        return findContainer(engine, id);
      };
      return {
        id,
        look,
        labels: () => outside.labelsOf(id),
        logFile: () => outside.logFileOf(id),
        get: async (path) => (await fetch(`http://127.0.0.1:${fixture.port}${path}`)).text(),
        until: (what, check) => until(what, check, 60_000),
        another: (change, folders) => see(change, folders),
        beside: (change) => start(change),
      };
    }

    async function architectureOf(platform: string): Promise<string> {
      const id = await engine.pull({ reference: manifold, platform });
      const architecture = await outside.architectureOf(id);
      await engine.removeImage(id);
      return architecture;
    }

    async function tryOut(row: Field): Promise<void> {
      const fixture: Fixture = { image, folder: join(folder, randomUUID()), port: await freePort() };
      mkdirSync(fixture.folder);
      const change = row.view(fixture);
      const refusals = notHonoured(makeView(change), { facts, limits });
      outcome.fields[row.field] = refusals.map(({ field, reason }) => `${field}: ${reason}`).join('; ') || 'failed';
      if (refusals.length > 0) {
        // The container has to run without the fields that are left out.
        await see(change);
        return;
      }
      if (row.pulled) await row.pulled(architectureOf);
      if (row.refused) await assert.rejects(start(change), row.refused);
      if (row.inside) row.inside(await see(change, row.folders), fixture);
      if (row.outside) {
        await using container = await start(change);
        try {
          await row.outside(running(container.id, fixture), fixture);
        } catch (cause) {
          throw new Error(`${(cause as Error).message}: ${await outside.describe(container.id)}`, { cause });
        }
      }
      outcome.fields[row.field] = 'honoured';
    }

    /** An engine cannot grant a capability that the machine of the test run does not have. */
    async function tryOutHere(row: Field): Promise<void> {
      try {
        await tryOut(row);
      } catch (error) {
        if (limits.mayRaise || !/unable to apply caps: operation not permitted/.test(String(error))) throw error;
        outcome.fields[row.field] = 'not on the machine of this run, which lacks capabilities itself';
      }
    }

    for (const row of FIELDS) test.concurrent(row.field, () => tryOutHere(row), 120_000);
  });
