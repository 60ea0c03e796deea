import { afterAll, expect, test } from 'vitest';
import { startControlPlane } from '../../hack/control-plane.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { churn, connect, createFixture, startMirror, untilEqual } from './_api-server.ts';
import { loadConfig } from './_fault-proxy.ts';
import { until } from './_util.ts';

/** A separate API server, since these tests kill it. */
const dir = temporaryFolder();

const cluster = await startControlPlane({ dir, controllerManager: false });

afterAll(async () => {
  await cluster.stop();
});

const TIMING = { backoff: { baseMs: 50, factor: 2, maxMs: 500, jitter: 0.5 } };

async function makeMirror() {
  const client = connect(() => loadConfig(cluster.kubeconfig));
  const fixture = await createFixture(client);
  await churn(fixture, 100);
  const mirror = startMirror(fixture, client, { timing: TIMING });
  await until('the first list', () => mirror.store.synced);
  return { fixture, mirror };
}

test('no change is missed when the API server is killed and started again', async () => {
  const { fixture, mirror } = await makeMirror();
  for (let round = 0; round < 2; round++) {
    const version = mirror.store.version;
    const ends = mirror.ended.length;
    const stop = new AbortController();
    const writing = churn(fixture, 2_000, { seed: round, signal: stop.signal }).catch(() => {});
    await until('some writes', () => mirror.store.version > version + 20);
    await cluster.killApiServer();
    stop.abort();
    await writing;
    expect(mirror.store.size).toBeGreaterThan(0);
    await cluster.startApiServer();
    // It is unknown which objects the aborted writes have left.
    fixture.there = new Set(
      (await untilEqual(fixture, mirror.store)).map((line) => line.replace(/^.*\/(.*) .*$/, '$1')),
    );
    await churn(fixture, 100, { seed: 10 + round });
    await untilEqual(fixture, mirror.store);
    expect(mirror.ended.slice(ends).map(({ reason }) => reason)).toContain('lost');
  }
  expect(mirror.regressions).toEqual([]);
});

test('no change is missed when the API server pauses', async () => {
  const { fixture, mirror } = await makeMirror();
  const writing = churn(fixture, 400, { seed: 20 });
  cluster.pauseApiServer();
  setTimeout(() => cluster.resumeApiServer(), 1_500);
  await writing;
  await untilEqual(fixture, mirror.store);
  expect(mirror.regressions).toEqual([]);
});

test('no change is missed when the API server ends properly and starts again', async () => {
  const { fixture, mirror } = await makeMirror();
  const restarting = cluster.restartApiServer();
  await restarting;
  await churn(fixture, 100, { seed: 30 });
  await untilEqual(fixture, mirror.store);
  expect(mirror.regressions).toEqual([]);
});
