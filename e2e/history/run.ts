import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { KubeError } from '../../hack/kube.ts';
import { waitFor } from '../../hack/wait.ts';
import { API_VERSION } from '../../src/api/names.ts';
import type { Application, EdgeNode } from '../../src/api/v3/index.ts';
import { type Seen, statusBody, type Trouble } from '../../src/kube/_fault-proxy.ts';
import { formatJoinString } from '../../src/wire/node-token.ts';
import { createMachine, type Machine } from './agents.ts';
import type { Fault, Story, Writes } from './generate.ts';
import type { EngineRecord, FaultRecord, History, Operation } from './history.ts';
import type { Lane, Replica } from './lane.ts';
import { MISSPELT, wantedRuns } from './model.ts';
import { observe, stateOf } from './observe.ts';
import { startLink, type TcpLink } from './tcp-link.ts';
import { type Doors, perform } from './users.ts';

/** How long the system may take to settle after all faults have ended, ms. It includes the longest back-off. */
const SETTLE = 240_000;
/** The time after which a silent node must be UNKNOWN: the limit of a 5 s long poll, and a margin for a busy machine. */
const SILENCE = 150_000;
/** For this long nothing may happen after everything has settled. */
const REST = 1_500;

/** Runs a story on real parts and records its history. Leaves nothing behind in the lane. */
export async function tell(story: Story, lane: Lane): Promise<History> {
  await using scene = await setScene(story, lane);
  const { operations, faults, now } = scene;
  await Promise.all([
    ...story.users.map(({ name, steps }) => scene.live(name, steps)),
    ...story.faults.map((fault) => scene.strike(fault)),
  ]);
  await scene.heal();
  const unsettled = await scene.settled();
  const restless = unsettled.length > 0 ? [] : await scene.atRest();
  const left = await scene.cleanUp();
  const end = { at: now(), unsettled: [...unsettled, ...left], restless, unmet: scene.unmet };
  return { seed: story.seed, operations, versions: scene.versions, engine: scene.engine, faults, end };
}

async function setScene(story: Story, lane: Lane) {
  await using started = new AsyncDisposableStack();
  const { kube, foundations } = lane;
  const began = performance.now();
  const now = () => Math.round(performance.now() - began);
  const operations: Operation[] = [];
  const engine: EngineRecord[] = [];
  const faults: FaultRecord[] = [];
  const unmet: string[] = [];
  const path = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${lane.name}/${plural}/${name}`;
  const imageOf = (colour: string) => images(story, lane)[colour] ?? colour;
  const colours = new Map(Object.entries(images(story, lane)).map(([colour, reference]) => [reference, colour]));
  const colourOf = (reference: string) => colours.get(reference) ?? reference;

  const links: TcpLink[] = [];
  const machines: Machine[] = [];
  for (const name of story.nodes) {
    const link = started.use(await startLink(() => lane.replicas.filter(({ runs }) => runs).map(({ port }) => port)));
    const machine = started.use(
      createMachine({
        name,
        dir: join(foundations.dir, lane.name, name),
        ...(story.engine === 'real' && foundations.real && { real: foundations.real.engine }),
        record: (entry) => void engine.push({ ...entry, at: now(), node: name } as EngineRecord),
        onKilledAtStep: () => faults.push({ at: now(), kind: 'agent died', target: name, text: 'at that step' }),
        colourOf,
      }),
    );
    links.push(link);
    machines.push(machine);
  }
  const over = new AbortController();
  started.defer(() => over.abort());
  const versions = await observe(
    { kubeconfig: foundations.kubeconfig, namespace: lane.name, apps: story.apps, colourOf, now },
    over.signal,
  );
  let turn = 0;
  const doors: Doors = {
    namespace: lane.name,
    kube,
    kubectl: foundations.kubectl,
    kubeconfig: foundations.kubeconfig,
    token: lane.token,
    image: imageOf,
    rest: () => `http://127.0.0.1:${lane.replicas[turn++ % lane.replicas.length]?.port}`,
  };

  await Promise.all(
    machines.map(async (machine, i) => {
      await kube.apply({
        apiVersion: API_VERSION,
        kind: 'EdgeNode',
        metadata: { name: machine.name, namespace: lane.name },
        spec: { watchdogEnabled: false, statusFrequency: 5 },
      });
      await machine.start();
      const uuid = await waitFor(
        async () => (await kube.get<EdgeNode>(path('edgenodes', machine.name)))?.status?.uuid,
        {
          what: `${machine.name} to have an identity`,
          timeoutMs: 60_000,
        },
      );
      const key = await waitFor(
        async () => {
          const response = await fetch(`${doors.rest()}/api/v3/node/${uuid}/provisioning-key`, {
            headers: { authorization: `Bearer ${lane.token}` },
          });
          if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
          return ((await response.json()) as { key: string }).key;
        },
        { what: `a key for ${machine.name}`, timeoutMs: 60_000 },
      );
      await machine.provision(formatJoinString({ controllerUrl: `http://127.0.0.1:${links[i]?.port}`, key }));
    }),
  );
  // The time of the story starts now.
  const offset = now();
  const isOver = () => now() - offset > story.lasts;
  /** repairs that are due at the end */
  const repairs: (() => Promise<void> | void)[] = [];

  const application = (name: string) => kube.get<Application>(path('applications', name));

  async function live(user: string, steps: Story['users'][number]['steps']): Promise<void> {
    for (const step of steps) {
      await sleep(step.pause);
      if (isOver()) return;
      await carryOut(user, step);
    }
  }

  async function carryOut(user: string, step: Story['users'][number]['steps'][number]): Promise<Operation> {
    const { id, door, app, action } = step;
    const operation: Operation = { id, user, door, app, action, invoked: now(), outcome: 'unknown' };
    operations.push(operation);
    const result = await perform(step, doors);
    Object.assign(operation, result, { answered: now() });
    return operation;
  }

  async function strike(fault: Fault): Promise<void> {
    await sleep(fault.at - (now() - offset));
    const record: FaultRecord = { at: now(), kind: fault.kind, target: '', text: '' };
    faults.push(record);
    await strikers[fault.kind](fault as never, record);
    record.until = now();
  }

  const machineOf = ({ node }: { node: number }, record: FaultRecord): Machine => {
    const machine = machines[node] as Machine;
    record.target = machine.name;
    return machine;
  };
  const replicaOf = ({ replica }: { replica: number }, record: FaultRecord): Replica => {
    const one = lane.replicas[replica % lane.replicas.length] as Replica;
    record.target = one.name;
    return one;
  };
  const linkFault =
    (state: Parameters<TcpLink['set']>[0]) => async (fault: { node: number; forMs: number }, record: FaultRecord) => {
      machineOf(fault, record);
      record.text = `for ${fault.forMs} ms`;
      links[fault.node]?.set(state);
      await sleep(fault.forMs);
      links[fault.node]?.set('open');
    };
  const disturb = (what: 'exit' | 'vanish') => async (fault: { node: number; which: number }, record: FaultRecord) => {
    const id = await machineOf(fault, record).engine.disturb(what, fault.which);
    record.text = id === undefined ? 'none ran' : id.slice(-6);
  };
  /** Requests of a controller except those for leases and reviews. */
  const matters = ({ path: at, watch }: Seen) => at.startsWith(`/apis/${API_VERSION}/`) && !watch;
  const isWrite = (seen: Seen) => matters(seen) && seen.method !== 'GET';
  const isWriteOf = (of: Writes) => (seen: Seen) => isWrite(seen) && (of === 'any' || !seen.path.endsWith('/status'));
  const inject = (
    replica: Replica,
    match: (seen: Seen) => boolean,
    trouble: Trouble | (() => Trouble),
    times: number,
  ) => {
    const one = replica.proxy.inject(match, trouble, times);
    repairs.push(() => one.end());
  };

  const strikers: { [K in Fault['kind']]: (fault: Extract<Fault, { kind: K }>, record: FaultRecord) => Promise<void> } =
    {
      'agent killed': async (fault, record) => {
        const machine = machineOf(fault, record);
        record.text = `for ${fault.forMs} ms`;
        machine.kill();
        await sleep(fault.forMs);
        await machine.start();
      },
      'agent forgets': async (fault, record) => {
        const machine = machineOf(fault, record);
        machine.kill();
        await sleep(fault.forMs);
        machine.forget();
        await machine.start();
      },
      'agent killed at a step': async (fault, record) => {
        const machine = machineOf(fault, record);
        record.text = `${fault.when} its step ${fault.steps} from now`;
        machine.engine.killAtStep(fault.steps, fault.when);
        while (machine.runs && !isOver()) await sleep(50);
        await sleep(fault.forMs);
        machine.engine.heal();
        await machine.start();
      },
      'engine killed': async (fault, record) => {
        const machine = machineOf(fault, record);
        record.text = `for ${fault.forMs} ms`;
        machine.engine.down();
        await sleep(fault.forMs);
        machine.engine.up();
      },
      'engine errors': async (fault, record) => {
        record.text = `${fault.count} operations ${fault.when === 'before' ? 'fail' : 'seem to fail'}`;
        machineOf(fault, record).engine.fail(fault.count, fault.when);
      },
      'container ended': disturb('exit'),
      'container removed': disturb('vanish'),
      'link cut': linkFault('cut'),
      'link slow': linkFault('slow'),
      'link half-open': linkFault('half-open'),
      'link deaf': linkFault('deaf'),
      'clock moved': async (fault, record) => {
        record.text = `by ${fault.byMs / 1000} s`;
        machineOf(fault, record).setClock(fault.byMs);
      },
      'controller killed': async (fault, record) => {
        const replica = replicaOf(fault, record);
        record.text = `for ${fault.forMs} ms`;
        replica.kill();
        await sleep(fault.forMs);
        await replica.start();
      },
      'controller killed at a write': async (fault, record) => {
        const replica = replicaOf(fault, record);
        record.text = `${fault.when} its write ${fault.writes} from now`;
        let left = fault.writes;
        const killed = Promise.withResolvers<void>();
        const kill = () => {
          replica.kill();
          record.text += ', which came';
          killed.resolve();
        };
        const isIt = isWriteOf(fault.of);
        const match = (seen: Seen) => isIt(seen) && --left === 0;
        inject(
          replica,
          match,
          () => {
            if (fault.when === 'after') return { instead: kill };
            kill();
            return { hang: true };
          },
          1,
        );
        await Promise.race([killed.promise, sleep(Math.max(0, story.lasts - (now() - offset)))]);
        await sleep(fault.forMs);
        await replica.start();
      },
      'controller frozen': async (fault, record) => {
        const replica = replicaOf(fault, record);
        // In half of the cases longer than a Lease lasts: when it continues, it believes that it still leads.
        const forMs = fault.forMs * 4;
        record.text = `for ${forMs} ms`;
        replica.freeze();
        await sleep(forMs);
        replica.thaw();
      },
      'API refuses': async (fault, record) => {
        const replica = replicaOf(fault, record);
        record.text = `${fault.count} requests with ${fault.status}`;
        const reasons = { 409: 'Conflict', 429: 'TooManyRequests', 500: 'InternalError', 503: 'ServiceUnavailable' };
        const isMet =
          fault.status === 409 ? (seen: Seen) => isWrite(seen) && ['PUT', 'PATCH'].includes(seen.method) : matters;
        const headers: Record<string, string> = fault.status === 429 ? { 'retry-after': '1' } : {};
        const body = statusBody(fault.status, reasons[fault.status], 'made up by the test');
        inject(replica, isMet, { answer: { status: fault.status, headers, body } }, fault.count);
      },
      'API answer lost': async (fault, record) => {
        record.text = `of ${fault.count} writes (${fault.of})`;
        const trouble: Trouble = { instead: (response) => response.socket?.resetAndDestroy() };
        inject(replicaOf(fault, record), isWriteOf(fault.of), trouble, fault.count);
      },
      'API watch expired': async (fault, record) => {
        const replica = replicaOf(fault, record);
        const text = `${JSON.stringify({ type: 'ERROR', object: statusBody(410, 'Expired', 'too old resource version') })}\n`;
        inject(
          replica,
          ({ watch, path: at }) => watch && at.startsWith(`/apis/${API_VERSION}/`),
          {
            stream: (response) => {
              response.writeHead(200, { 'content-type': 'application/json' });
              response.end(text);
            },
          },
          3,
        );
        replica.proxy.cutAll();
      },
      'API hangs': async (fault, record) => {
        record.text = `on ${fault.count} requests`;
        inject(replicaOf(fault, record), matters, { hang: true }, fault.count);
      },
      'API connections cut': async (fault, record) => {
        replicaOf(fault, record).proxy.cutAll();
      },
      'API half-open': async (fault, record) => {
        const { proxy } = replicaOf(fault, record);
        const forMs = fault.forMs * 2;
        record.text = `for ${forMs} ms`;
        proxy.freeze();
        await sleep(forMs);
        proxy.thaw();
        proxy.cutAll();
      },
      'API down': async (fault, record) => {
        const { proxy } = replicaOf(fault, record);
        record.text = `for ${fault.forMs} ms`;
        const down = proxy.inject(() => true, { stream: (response) => response.socket?.resetAndDestroy() });
        proxy.cutAll();
        await sleep(fault.forMs);
        down.end();
      },
      'mass silence': async (_, record) => {
        record.target = 'all nodes';
        for (const link of links) link.set('half-open');
        const from = now();
        const nodes = await Promise.all(
          machines.map(({ name }) =>
            until(
              async () => (await kube.get<EdgeNode>(path('edgenodes', name)))?.status?.daemonStatus === 'UNKNOWN',
              SILENCE,
            ),
          ),
        );
        for (const [i, noticed] of nodes.entries())
          if (!noticed)
            unmet.push(`${machines[i]?.name} was silent for ${now() - from} ms and was never called UNKNOWN`);
        for (const name of story.apps) {
          const honest = await until(async () => {
            const current = await application(name);
            const runs = current && wantedRuns(stateOf(current, colourOf)).size > 0;
            return !runs || readyOf(current)?.status !== 'True';
          }, 60_000);
          if (!honest) unmet.push(`${name} was called ready for a minute after its nodes were called UNKNOWN`);
        }
        for (const link of links) link.set('open');
      },
    };

  async function heal(): Promise<void> {
    for (const repair of repairs.splice(0)) await repair();
    for (const link of links) link.set('open');
    for (const machine of machines) {
      machine.engine.heal();
      machine.engine.up();
    }
    for (const replica of lane.replicas) {
      replica.proxy.thaw();
      replica.thaw();
    }
    await Promise.all([...lane.replicas, ...machines].map((one) => one.start()));
    await correctPlaces();
    faults.push({ at: now(), kind: 'all is well', target: '', text: 'no more faults from here on' });
  }

  /** Corrects places that are misspelt at the end: until then they do not settle. */
  async function correctPlaces(): Promise<void> {
    const [node = ''] = story.nodes;
    for (const app of story.apps)
      for (;;) {
        const wrong = (await application(app))?.spec.microservices?.find(({ agent }) => agent?.name === MISSPELT);
        if (!wrong) break;
        const id = `place-${app}-${wrong.name}-${operations.length}`;
        await carryOut('end', { id, pause: 0, door: 'api', app, action: { kind: 'place', entry: wrong.name, node } });
      }
  }

  /** The current differences from the model. */
  async function differences(): Promise<string[]> {
    const found: string[] = [];
    const expected = new Map<string, { name: string; node: string; text: string }>();
    for (const name of story.apps) {
      const current = await application(name);
      if (!current) continue;
      if (current.metadata.deletionTimestamp) {
        found.push(`${name} is still being deleted: ${readyOf(current)?.message}`);
        continue;
      }
      const state = stateOf(current, colourOf);
      const runs = wantedRuns(state);
      for (const [entry, { node, value, image, rebuild }] of runs)
        expected.set(`${node}/${name}/${entry}`, {
          name: `${name}/${entry}`,
          node,
          text: `${value} ${image} ${rebuild}`,
        });
      const ready = readyOf(current);
      const isReady = ready?.status === 'True' && ready.observedGeneration === current.metadata.generation;
      if (!isReady || current.status?.ready !== `${runs.size}/${runs.size}`)
        found.push(
          `${name} (generation ${current.metadata.generation}) says ${ready?.status} ${ready?.reason} of generation ${ready?.observedGeneration}: ${ready?.message}`,
        );
    }
    const made = new Map(engine.flatMap((one) => (one.what === 'create' ? [[`${one.node}/${one.id}`, one]] : [])));
    for (const machine of machines) {
      const node = await kube.get<EdgeNode>(path('edgenodes', machine.name));
      if (readyOf(node)?.status !== 'True')
        found.push(`${machine.name} says ${readyOf(node)?.reason}: ${readyOf(node)?.message}`);
      for (const container of await machine.engine.containers()) {
        const key = `${machine.name}/${container.application}/${container.microservice}`;
        const wanted = expected.get(key);
        const box = made.get(`${machine.name}/${container.id}`);
        const is = box && `${box.value} ${box.image} ${box.rebuild}`;
        if (!wanted || wanted.text !== is || container.state !== 'running')
          found.push(`${key} on the engine: ${is} ${container.state}; wanted: ${wanted?.text ?? 'nothing'}`);
        else expected.delete(key);
      }
    }
    return [...found, ...[...expected].map(([key, { text }]) => `${key} is not on the engine; wanted: ${text}`)];
  }

  async function settled(): Promise<string[]> {
    const deadline = now() + SETTLE;
    for (;;) {
      const found = await differences().catch((error: Error) => [error.message]);
      if (found.length === 0 || now() > deadline) return found;
      await sleep(250);
    }
  }

  async function atRest(): Promise<string[]> {
    const from = engine.length;
    await sleep(REST);
    return engine
      .slice(from)
      .filter(({ what }) => what !== 'seen')
      .map(({ node, what, uuid }) => `${node}: ${what} of ${uuid}`);
  }

  /** Deletes everything as users would; that has to work as well. */
  async function cleanUp(): Promise<string[]> {
    for (const app of story.apps)
      await carryOut('end', { id: `end-${app}`, pause: 0, door: 'api', app, action: { kind: 'delete' } });
    const left = async (plural: string, names: readonly string[]) => {
      const gone = (name: string) => until(async () => !(await kube.get(path(plural, name))), SETTLE / 2);
      const all = await Promise.all(names.map(async (name) => ((await gone(name)) ? [] : [`${name} is never gone`])));
      return all.flat();
    };
    const found = await left('applications', story.apps);
    for (const { name } of machines)
      await kube.request('DELETE', path('edgenodes', name)).catch((error: unknown) => {
        if (!(error instanceof KubeError && error.status === 404)) throw error;
      });
    found.push(...(await left('edgenodes', story.nodes)));
    for (const machine of machines)
      for (const container of await machine.engine.containers())
        found.push(`${machine.name} still has ${container.name} after its node is gone`);
    return found;
  }

  const owned = started.move();
  return {
    operations,
    versions,
    engine,
    faults,
    unmet,
    now,
    live,
    strike,
    heal,
    settled,
    atRest,
    cleanUp,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const images = (story: Story, { foundations }: Lane): Readonly<Record<string, string>> =>
  (story.engine === 'real' && foundations.real?.images) || {
    blue: 'registry.example/history/blue:1',
    green: 'registry.example/history/green:1',
  };

const readyOf = (
  object:
    | {
        status?: {
          conditions?: readonly {
            type: string;
            status: string;
            reason: string;
            message: string;
            observedGeneration?: number;
          }[];
        };
      }
    | undefined,
) => object?.status?.conditions?.find(({ type }) => type === 'Ready');

async function until(check: () => Promise<boolean>, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    if (await check().catch(() => false)) return true;
    if (performance.now() > end) return false;
    await sleep(200);
  }
}
