import type { PortMapping } from '../../../src/api/container/index.ts';
import type { Container } from '../domain/container.ts';
import type { Step, Wait } from '../domain/step.ts';

type Stop = Extract<Step, { kind: 'stop' }>;

/**
 * Holds back the steps that would meet a port that another microservice of this node still has.
 *
 * A container gives way to its successor only when each port that the successor needs is held by nobody of ours, or by
 * one that gives way as well: then a chain moves up, a ring turns, and nobody stops for a port that does not come free.
 * A successor starts when its ports have come free.
 */
export function arrangePorts(
  steps: readonly Step[],
  containers: readonly Container[],
  now: number,
): { steps: Step[]; waits: Wait[] } {
  const holders = new Map<string, Container>();
  for (const container of containers)
    if (container.state === 'running') for (const port of container.ports) holders.set(portName(port), container);
  /** who else holds one of these, of the containers that `counts` */
  const conflict = (step: { uuid: string; ports?: readonly PortMapping[] }, counts: (holder: Container) => boolean) => {
    for (const port of step.ports ?? []) {
      const holder = holders.get(portName(port));
      if (holder && holder.uuid !== step.uuid && counts(holder)) return { port, holder };
    }
    return undefined;
  };

  const leaving = new Map<string, Stop>();
  for (const step of steps) if (step.kind === 'stop') leaving.set(step.containerId, step);
  const stays = ({ id }: Container) => !leaving.has(id);
  for (let before = -1; before !== leaving.size; ) {
    before = leaving.size;
    for (const step of leaving.values()) if (conflict(step, stays)) leaving.delete(step.containerId);
  }

  const result: { steps: Step[]; waits: Wait[] } = { steps: [], waits: [] };
  for (const step of steps) {
    const met =
      step.kind === 'stop'
        ? conflict(step, stays)
        : step.kind === 'start'
          ? conflict(step, (holder) => !stays(holder))
          : undefined;
    if (met) {
      const { application, microservice } = met.holder;
      const message = `port ${portName(met.port)} is held by ${application}.${microservice} of this node`;
      result.waits.push({ uuid: (step as Stop).uuid, why: 'Port', until: now + LOOK_AGAIN, message });
    } else if (step.kind === 'stop' && step.ports) {
      // What is left to find out is whether somebody else on the machine has them.
      result.steps.push({ ...step, ports: step.ports.filter((port) => !holders.has(portName(port))) });
    } else result.steps.push(step);
  }
  return result;
}

/** Whoever holds the port is looked at when it changes; this is for what nobody tells. */
const LOOK_AGAIN = 30_000;

/** `8080/tcp`: one port of the machine. */
export function portName({ external, protocol }: Pick<PortMapping, 'external' | 'protocol'>): string {
  return `${external}/${protocol}`;
}
