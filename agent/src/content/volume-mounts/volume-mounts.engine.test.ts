import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../../hack/image.ts';
import { freePort } from '../../../../hack/ports.ts';
import { sampleImage } from '../../../../hack/sample.ts';
import type {} from '../../../../hack/testing/provided.ts';
import { AGENT_BRIDGE_HOST } from '../../../../src/api/names.ts';
import { silentLog } from '../../../../src/lib/log.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { createTestAgent } from '../../_agent.ts';
import type { Container } from '../../engine-port/container.ts';
import type { CompleteEngine } from '../../engine-port/engine.ts';
import { cleanUp, until } from '../../engines/_contract.ts';
import { openEngine } from '../../engines/open.ts';
import { FakeController, type View } from '../../link/_fake-controller.ts';
import { NO_PROCESS } from '../../local-api/_no-process.ts';
import { ControlChannels } from '../../local-api/routes/workload/control-channels.ts';
import { localApi } from '../../local-api/routes.ts';
import { serveBridge } from '../../local-api/server/bridge.ts';
import { AdminToken } from '../../local-api/server/token.ts';
import { systemClock } from '../../machine/clock.ts';
import { localMachine } from '../../machine/machine.ts';
import { filesOnDisk } from '../../machine/mounted-files.ts';
import { LocalAuthority } from '../../state/local-authority.ts';
import { prepareMounts } from '../../supervise/executors/mounts.ts';
import { mount, mounted } from './_mount.ts';

/** Volume mounts and tokens in containers of real engines: what a process in a container reads, seen through /proc. */

for (const { kind, url } of inject('everyEngine'))
  describe(kind, () => {
    const folder = temporaryFolder();
    const volumes = join(folder, 'volumes');
    const stop = new AbortController();
    let engine: CompleteEngine;
    let controller: FakeController;
    let run: Promise<void>;
    let image: string;
    let port: number;
    let served: Promise<void>;

    beforeAll(async () => {
      ({ reference: image } = await pushImage(inject('registryUrl'), 'volume-mounts/sample', '1', await sampleImage()));
      controller = await new FakeController().listen();
      const authority = new LocalAuthority({
        file: join(folder, 'local-api.json'),
        ...{ host: AGENT_BRIDGE_HOST, wall: Date.now, log: silentLog },
      });
      port = await freePort();
      const agent = createTestAgent({
        folder,
        engine: (instance) => {
          engine = openEngine({ url, instance });
          return engine;
        },
        machine: localMachine(folder),
        mountedFiles: filesOnDisk(volumes),
        apiAuthority: () => authority.certificate,
        prepareMounts: (spec, group) => prepareMounts(spec, group, volumes),
      });
      run = agent.run(stop.signal);
      await agent.provision(controller.joinString);
      const api = localApi({
        ...{ agent, channels: new ControlChannels(agent), adminToken: new AdminToken(join(folder, 'token'), agent) },
        ...NO_PROCESS,
      });
      served = serveBridge(
        { port, certificates: authority, address: () => agent.supervisor.gateway },
        { clock: systemClock(), log: silentLog, api },
        stop.signal,
      );
    });

    afterAll(async () => {
      stop.abort();
      await Promise.all([run, served]);
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
      // Any user may read what is mounted.
      runAsUser: '1000',
      serviceAccount: { name: 'web', rules: [] },
      volumeMappings: [{ ...mounted(hostDestination, '/etc/creds'), accessMode: 'rw' }],
    });

    const want = (views: View[], data: Record<string, string>) =>
      controller.change({ microservices: views, volumeMounts: [mount(data)] });

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

    /** The response to a process in the network of a container, which knows what the container has mounted. */
    async function askFrom(container: Container, path: string): Promise<{ status: number; body: string }> {
      const account = (name: string) => text(container, `/var/run/secrets/agent.skerry.dev/serviceaccount/${name}`);
      const [address] = text(container, '/etc/hosts')
        .split('\n')
        .filter((line) => line.includes(AGENT_BRIDGE_HOST))
        .map((line) => line.split(/\s+/)[0]);
      const options = {
        ...{ host: address, port, path, servername: AGENT_BRIDGE_HOST, ca: account('ca.crt'), timeout: 10_000 },
        headers: { authorization: `Bearer ${account('token')}` },
      };
      const program = `require('node:https').get(${JSON.stringify(options)}, async (response) => {
        let body = '';
        for await (const piece of response) body += piece;
        console.log(JSON.stringify({ status: response.statusCode, body }));
      })`;
      const node = ['-t', String(container.pid), '-n', process.execPath, '-e', program];
      // The agent is in this process, which has to go on.
      const out = await new Promise<string>((resolve, reject) => {
        execFile('nsenter', node, { timeout: 20_000 }, (error, stdout) => (error ? reject(error) : resolve(stdout)));
      });
      return JSON.parse(out);
    }

    test('a container reaches the local API by its name, over TLS that its ca.crt verifies, as the microservice that it is', async () => {
      const uuid = randomUUID();
      want([{ ...view(uuid, 'creds'), config: '{"rate":5}' }], { user: 'ann' });
      await reported(uuid);
      const container = await until('the container', () => only(uuid));
      const own = await until('a response', () => askFrom(container, '/v1/microservices/config'));
      expect(own.status).toBe(200);
      expect(JSON.parse(own.body)).toMatchObject({ data: { microserviceUuid: uuid, config: { rate: 5 } } });
      for (const path of ['/v1/ms', '/v1/system/status', '/metrics', '/health/live'])
        expect((await askFrom(container, path)).status, path).toBe(403);
    });
  });
