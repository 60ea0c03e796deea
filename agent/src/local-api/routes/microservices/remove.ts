import type { MicroserviceSource } from '../../../domain/wanted.ts';
import { LocalApiError } from '../../server/errors.ts';

/** What a removal needs of the agent. */
export interface RemovingAgent {
  sourceOf(uuid: string): MicroserviceSource;
  readonly own: {
    /** Ends a microservice of the machine for good. Throws AgentError, and changes nothing, when that cannot be saved. */
    remove(uuid: string): void;
  };
  readonly supervisor: {
    readonly desired: readonly { uuid: string }[];
    /** microservices that have a container, or may have one as far as is known */
    readonly present: readonly string[];
    /** whether it is known that a microservice without an entry is not to run here */
    isUnwanted(uuid: string): boolean;
    record(uuid: string): { stoppedLocally?: unknown } | undefined;
    readonly local: { remove(uuid: string): Promise<void> };
    until(condition: () => boolean, milliseconds: number, signal?: AbortSignal): Promise<boolean>;
  };
}

/** A container has 10 s to stop, and others may stop before it. */
const REMOVAL_WAIT = 60_000;

/** Removes a microservice: of the machine itself for good, of a controller its container alone. Volumes stay. */
export async function removeMicroservice(uuid: string, agent: RemovingAgent, signal: AbortSignal) {
  const { supervisor } = agent;
  const done = { status: 'ok' as const, microserviceUuid: uuid };
  const source = agent.sourceOf(uuid);
  if (source === 'controlplane')
    throw new LocalApiError(
      'FORBIDDEN',
      'the control plane goes with its data alone: skerry-agent controlplane delete',
    );
  if (source === 'local') {
    agent.own.remove(uuid);
    const isGone = await supervisor.until(() => !supervisor.present.includes(uuid), REMOVAL_WAIT, signal);
    return isGone ? done : { ...done, warning: 'its container is not removed yet; the agent goes on trying' };
  }
  await supervisor.local.remove(uuid);
  if (!supervisor.desired.some((entry) => entry.uuid === uuid)) {
    if (supervisor.isUnwanted(uuid)) return done;
    return { ...done, warning: 'it is not known yet what this machine is to run: its container may be made again' };
  }
  const warning = supervisor.record(uuid)?.stoppedLocally
    ? 'it was stopped here, so its container is made when it is started'
    : 'it is still wanted here: its container is made again';
  return { ...done, warning };
}
