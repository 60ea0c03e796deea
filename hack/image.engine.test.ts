import { expect, inject, onTestFinished, test } from 'vitest';
import { callEngine, loadImage, pullInsecure } from './engine-api.ts';
import { pushImage, saveImage } from './image.ts';
import { freePort } from './ports.ts';
import { sampleImage } from './sample.ts';
import { waitFor } from './wait.ts';

const engineUrl = inject('engineUrl');
const registryUrl = inject('registryUrl');

test('the engine pulls and runs an image that was built without an engine', async () => {
  const greeting = 'Hello from a test';
  const image = await sampleImage({ env: { GREETING: greeting }, labels: { origin: 'scratch' } });
  const { reference } = await pushImage(registryUrl, 'test/sample', 'v1', image);
  await pullInsecure(engineUrl, reference);
  onTestFinished(async () => {
    await callEngine(engineUrl, 'DELETE', `/v1.41/images/${encodeURIComponent(reference)}?force=true`);
  });

  const port = await freePort();
  const limits = ['nofile', 'nproc'].map((Name) => ({ Name, Soft: 1024, Hard: 1024 }));
  const container = await callEngine<{ Id: string }>(engineUrl, 'POST', '/v1.41/containers/create', {
    Image: reference,
    ExposedPorts: { '8080/tcp': {} },
    HostConfig: { Ulimits: limits, PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: `${port}` }] } },
  });
  const path = `/v1.41/containers/${container.Id}`;
  onTestFinished(async () => {
    await callEngine(engineUrl, 'DELETE', `${path}?force=true`);
  });
  await callEngine(engineUrl, 'POST', `${path}/start`);
  const answer = await waitFor(async () => (await fetch(`http://127.0.0.1:${port}/`)).text(), {
    what: 'the sample to answer',
  });
  expect(answer.trim()).toBe(greeting);
  expect(await callEngine(engineUrl, 'GET', `${path}/json`)).toMatchObject({
    Config: { Labels: { origin: 'scratch' } },
  });

  await callEngine(engineUrl, 'POST', `${path}/stop?t=20`);
  expect(await callEngine(engineUrl, 'GET', `${path}/json`)).toMatchObject({
    State: { Status: 'exited', ExitCode: 0 },
  });
});

test('the engine loads an image without a registry', async () => {
  const reference = '127.0.0.1:1/test/loaded:v1';
  const image = await sampleImage({ labels: { origin: 'archive' } });
  await loadImage(engineUrl, saveImage(image, reference));
  const path = `/v1.41/images/${encodeURIComponent(reference)}`;
  onTestFinished(async () => {
    await callEngine(engineUrl, 'DELETE', `${path}?force=true`);
  });
  expect(await callEngine(engineUrl, 'GET', `${path}/json`)).toMatchObject({
    Config: { Labels: { origin: 'archive' } },
    RepoTags: [reference],
  });
});
