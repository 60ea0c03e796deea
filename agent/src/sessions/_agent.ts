import { type AddressInfo, createServer, connect as openSocket, type Socket } from 'node:net';
import { silentLog } from '../../../src/lib/log.ts';
import type { startStack } from '../../../src/sessions/_stack.ts';
import { NO_SESSION_FILES } from '../_agent.ts';
import { policySchema } from '../domain/policy.ts';
import type { Container } from '../engine-port/container.ts';
import { makeSpec } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { systemClock } from '../machine/clock.ts';
import { Sessions, type SessionsDependencies } from './sessions.ts';

type Stack = Awaited<ReturnType<typeof startStack>>;

interface Options extends Partial<Omit<SessionsDependencies, 'engine'>>, Pick<SessionsDependencies, 'engine'> {
  container(uuid: string): Container | undefined;
}

/** An engine in memory with one container that runs, of a microservice. */
export async function runContainer(uuid: string): Promise<{ engine: MemoryEngine; container: string }> {
  const engine = new MemoryEngine({ anyImage: true });
  const spec = makeSpec({ facts: await engine.connect(), view: { uuid } });
  await engine.ensureNetwork();
  await engine.pull({ reference: spec.image, platform: '' });
  const container = (await engine.create(spec)).id;
  await engine.start(container);
  return { engine, container };
}

/** The sessions of an agent at a real controller's sockets, over a link that can be cut. */
export async function startSessions(stack: Stack, { engine, container, ...deps }: Options) {
  const link = await startLink(new URL(stack.url));
  const policy = { value: policySchema.parse({}) };
  const sessions = new Sessions({
    ...{ engine, clock: systemClock(), random: Math.random, log: silentLog, ...NO_SESSION_FILES },
    client: () => ({
      async document(path) {
        const { body } = await stack.asAgent(path.replace('/agent', ''));
        return { body: JSON.stringify(body), etag: undefined };
      },
      socket: (path) => ({
        url: `ws://127.0.0.1:${link.port}/api/v3${path}`,
        headers: { authorization: `Bearer ${stack.token()}` },
      }),
    }),
    policy: () => policy.value,
    containerOf: container,
    stateOf: () => undefined,
    runsOf: () => undefined,
    isSystem: () => false,
    isOwn: () => false,
    ...deps,
  });
  const subscription = stack.places.subscribe(() => sessions.changed());
  const stop = new AbortController();
  const done = sessions.run(stop.signal);
  return {
    sessions,
    link,
    setPolicy(change: Partial<typeof policy.value>) {
      policy.value = policySchema.parse(change);
      sessions.changed();
    },
    async [Symbol.asyncDispose]() {
      subscription[Symbol.dispose]();
      stop.abort();
      await done;
      link.close();
    },
  };
}

/** A TCP link to a server; `cut` breaks its connections. */
async function startLink({ hostname, port }: URL) {
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = openSocket(Number(port), hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on('error', () => {});
      from.on('close', () => {
        open.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    /** whether one of the two ends takes nothing more */
    isFull: () => [...open].some((socket) => socket.writableNeedDrain),
    close() {
      cut();
      server.close();
    },
  };
}
