import type { PortMapping } from '../../../../src/api/container/index.ts';
import type { BareStep, BareStepOf, Wait } from '../../domain/step.ts';
import type { Container } from '../../engine-port/container.ts';

type Stop = BareStepOf<'stop'>;

/**
 * Leaves out the steps that need a port which another microservice of this node still has.
 *
 * A container gives way to its successor only when each port that the successor needs is free of this agent's containers,
 * or taken by one that gives way as well. So a chain moves up, a ring turns, and no container stops for a port that does
 * not become free. A successor starts when its ports are free.
 */
export function arrangePorts(
  steps: readonly BareStep[],
  containers: readonly Container[],
  now: number,
): { steps: BareStep[]; waits: Wait[] } {
  const holders = new Map<string, Container>();
  for (const container of containers)
    if (container.state === 'running') for (const port of container.ports) holders.set(portName(port), container);
  /** another container that has one of these ports, among those that `counts` */
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

  const onHost = new Set(containers.filter(({ hostNetwork }) => hostNetwork).map(({ id }) => id));
  const result: { steps: BareStep[]; waits: Wait[] } = { steps: [], waits: [] };
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
      // Whether another program of the machine has them is asked when the step is carried out. A container on the host network may be that program.
      const isAsked = (port: PortMapping) => !onHost.has(step.containerId) && !holders.has(portName(port));
      result.steps.push({ ...step, ports: step.ports.filter(isAsked) });
    } else result.steps.push(step);
  }
  return result;
}

/** A change of the container that has the port causes a look; this is for changes that no event reports. */
const LOOK_AGAIN = 30_000;

/** `8080/tcp`: one port of the machine. */
export function portName({ external, protocol }: Pick<PortMapping, 'external' | 'protocol'>): string {
  return `${external}/${protocol}`;
}
