import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import type {} from '../../../hack/testing/provided.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { createTestAgent, runAgent } from '../_agent.ts';
import type { Agent } from '../app.ts';
import { until } from '../engines/_contract.ts';
import { suiteEngines } from '../engines/_outside.ts';
import { type OwnTestEngine, startOwnEngine } from '../engines/_private.ts';
import { openEngine } from '../engines/open.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { bufferedSink, createLog } from '../machine/log.ts';
import { localMachine } from '../machine/machine.ts';
import { memoryIdentity } from '../state/_identity.ts';
import { memoryDatabase } from '../state/database.ts';

/** An engine ends and starts again: no crash is counted, and all microservices run again. */

for (const { kind } of suiteEngines())
  describe(kind, () => {
    const folder = temporaryFolder();
    let endAgent: () => Promise<void>;
    const uuid = randomUUID();
    const lines: string[] = [];
    let engine: OwnTestEngine;
    let controller: FakeController;
    let agent: Agent;
    let external: number;
    const database = memoryDatabase();
    const identity = memoryIdentity();

    beforeAll(async () => {
      engine = await startOwnEngine(kind);
      const { reference } = await pushImage(inject('registryUrl'), 'restart/sample', '1', await sampleImage());
      external = await freePort();
      controller = await new FakeController().listen();
      boot();
      controller.microservices = [
        {
          uuid,
          name: 'web',
          application: 'shop',
          imageId: reference,
          registryId: 1,
          revision: 'r1',
          portMappings: [{ internal: 8080, external, protocol: 'tcp' }],
        },
      ];
      await agent.provision(controller.joinString);
      await up();
    });

    afterAll(async () => {
      await agent.deprovision();
      await agent.supervisor.until(() => agent.supervisor.containers.length === 0, 30_000);
      await endAgent();
      await controller.close();
      await engine[Symbol.asyncDispose]();
    });

    /** Starts an agent with the database and identity of the last one. */
    function boot(): void {
      agent = createTestAgent({
        folder,
        log: createLog(
          bufferedSink('INFO', 100, (line) => void lines.push(line)),
          Date.now,
        ),
        engine: (instance) => openEngine({ url: engine.url, instance }),
        database,
        identity,
        machine: localMachine(folder),
      });
      endAgent = runAgent(agent);
    }

    /** Waits until the report has the state UNKNOWN with the container that ran before. */
    async function unknown(containerId: string | undefined): Promise<void> {
      await until('UNKNOWN', () => controller.microservice(uuid)?.status === 'UNKNOWN');
      expect(controller.microservice(uuid)).toMatchObject({
        reason: 'EngineUnavailable',
        name: 'web',
        application: 'shop',
        containerId,
        errorMessage: expect.stringContaining('does not answer'),
      });
      expect(controller.said).toMatchObject({
        daemonStatus: 'WARNING',
        engineError: expect.stringContaining('does not answer'),
      });
    }

    async function up(): Promise<void> {
      // The response of the workload comes first, since the report may be older than the end of the engine.
      await until('an answer', async () => (await fetch(`http://127.0.0.1:${external}/`)).ok);
      await until('the agent to see it', () => agent.microservices()?.[0]?.status === 'RUNNING');
      await until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING');
    }

    for (const [how, end] of [
      ['killed', () => engine.kill()],
      ['stopped cleanly', () => engine.halt()],
    ] as const)
      test(`when the engine is ${how}, neither its end nor that of its containers counts as a crash`, async () => {
        const before = agent.supervisor.containers[0];
        lines.length = 0;
        await end();
        await until('the loss to be seen', () => agent.supervisor.engine.state === 'lost');
        expect(await agent.report(false)).toMatchObject({ daemonStatus: 'WARNING' });
        expect((await agent.report(false)).warningMessage).toContain('container engine');
        await unknown(before?.id);
        await engine.start();
        await until('the engine', () => agent.supervisor.engine.state === 'connected');
        await up();
        const now = agent.supervisor.containers;
        expect(now.map(({ id }) => id)).toEqual([before?.id]);
        const status = agent.microservices()?.[0];
        expect(status).toMatchObject({ status: 'RUNNING', errorMessage: '' });
        expect(status?.restartCount ?? 0).toBe(0);
        const reasons = lines.flatMap((line) => {
          const { step, reasonCode, level } = JSON.parse(line) as Record<string, string>;
          return step === 'start' && level === 'INFO' ? [reasonCode] : [];
        });
        // Containers of podman are not its children: they run on when it is killed. The agent's own engine never ends them.
        const runOn = kind === 'embedded' || (kind === 'podman' && how === 'killed');
        expect([...new Set(reasons)]).toEqual(runOn ? [] : ['EngineRestarted']);
        expect(controller.said.engineError).toBe('');
      });

    test.runIf(kind === 'docker')(
      'nothing is started in an engine that is stopping, also while it waits for a container that stops slowly',
      async () => {
        const { microservices } = controller;
        const commands = ['-stop-delay', '5s'];
        const slow = { ...microservices[0], uuid: randomUUID(), name: 'slow', portMappings: [], commands };
        controller.change({ microservices: [...microservices, slow] });
        await until('both', () => controller.microservice(slow.uuid)?.status === 'RUNNING');
        lines.length = 0;
        await engine.halt();
        await until('the loss to be seen', () => agent.supervisor.engine.state === 'lost');
        expect(lines.filter((line) => line.includes('Starting the container'))).toEqual([]);
        await engine.start();
        await up();
        controller.change({ microservices });
        await until('one', () => agent.supervisor.containers.length === 1);
        // The end of the other one is a record until the controller has received it.
        await until('one record', () => agent.microservices()?.length === 1);
      },
    );

    test.runIf(kind === 'docker')(
      'an agent that starts while the engine is down reports the saved microservices as UNKNOWN',
      async () => {
        const before = agent.supervisor.containers[0];
        await engine.kill();
        await until('the loss to be seen', () => agent.supervisor.engine.state === 'lost');
        await endAgent();
        controller.said = {};
        boot();
        await unknown(before?.id);
        expect(agent.microservices()).toMatchObject([{ id: uuid, name: 'web', status: 'UNKNOWN' }]);
        await engine.start();
        await up();
        expect(agent.supervisor.containers.map(({ id }) => id)).toEqual([before?.id]);
      },
    );
  });
