import { randomUUID } from 'node:crypto';
import { waitFor } from '../../../hack/wait.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { containerSpec, isEdgeRouter, type ProcessLimits, type SpecContext } from '../domain/container-spec.ts';
import { containerDigest } from '../domain/digest.ts';
import type { Container } from '../engine-port/container.ts';
import type { ContainerSpec } from '../engine-port/container-spec.ts';
import type { ContainerPort } from '../engine-port/containers.ts';
import type { Engine } from '../engine-port/engine.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import type { NetworkPort } from '../engine-port/networks.ts';
import { makeView } from '../supervise/plan/_util.ts';

/** Helpers for tests against a real engine. */

export const INSTANCE = randomUUID().replaceAll('-', '');
const FREE: ProcessLimits = { mayRaise: true, hard: {} };

export interface SpecOptions {
  view?: Partial<MicroserviceView>;
  generation?: number;
  name?: string;
  facts: EngineFacts;
  limits?: ProcessLimits;
  instance?: string;
  volumesDirectory?: string;
}

/** The container of a view, as a create step would ask for it. */
export function makeSpec({ view: change = {}, generation = 1, name, facts, ...rest }: SpecOptions): ContainerSpec {
  const view = makeView({ uuid: randomUUID(), ...change });
  const context: SpecContext = {
    instance: rest.instance ?? INSTANCE,
    nodeUuid: 'node-1',
    scopeOf: () => 'managed',
    volumesDirectory: rest.volumesDirectory ?? '/var/empty',
    timeZone: '',
    facts,
    hasEdgeRouter: isEdgeRouter(view),
    limits: rest.limits ?? FREE,
  };
  return containerSpec(
    {
      kind: 'create',
      uuid: view.uuid,
      target: '',
      view,
      digest: containerDigest(view),
      imageId: '',
      rebuildCount: view.rebuildCount,
      generation,
      name: name ?? `skerry-${view.uuid}`,
      reason: 'New',
    },
    context,
  );
}

/** Connects an engine that then has its network and an image. */
export async function prepare(engine: Engine, image: string): Promise<EngineFacts> {
  const facts = await engine.connect();
  await engine.ensureNetwork();
  await engine.pull({ reference: image, platform: '' });
  return facts;
}

/** Waits until a condition holds; the time is how long it may take at most. */
export const until = <T>(
  what: string,
  check: () => Promise<T | undefined | false> | T | undefined | false,
  milliseconds = 50_000,
): Promise<T> => waitFor(check, { what, timeoutMs: milliseconds });

export async function findContainer(engine: ContainerPort, id: string): Promise<Container> {
  const found = (await engine.containers()).find((container) => container.id === id);
  if (!found) throw new Error(`the engine does not list ${id}`);
  return found;
}

/** Ends everything that an instance left in an engine. */
export async function cleanUp(engine: ContainerPort & NetworkPort): Promise<void> {
  for (const { id } of await engine.containers()) {
    await engine.stop(id, 0);
    await engine.remove(id);
  }
  await engine.removeNetwork();
}
