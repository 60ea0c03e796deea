import type { Supervisor } from './supervisor.ts';

/** A removal that has removed nothing for so long, ms, is stuck; a container has 10 s to stop. */
const REMOVAL_PATIENCE = 60_000;

/**
 * Resolves when no container of the agent but those that stay is left on the machine, or when the removal is stuck; answers what is left.
 */
export async function untilRemoved(
  supervisor: Pick<Supervisor, 'engine' | 'present' | 'until'>,
  stays: (uuid: string) => boolean,
  signal: AbortSignal,
): Promise<string[]> {
  const present = () => supervisor.present.filter((uuid) => !stays(uuid));
  const isStuck = () => supervisor.engine.state === 'lost';
  for (let left = present().length; left > 0 && !signal.aborted && !isStuck(); ) {
    const before = left;
    await supervisor.until(() => present().length < before || isStuck(), REMOVAL_PATIENCE, signal);
    left = present().length;
    if (left >= before) break;
  }
  return present();
}

/** Forgets microservices that are gone: without a controller there is nothing to report them to. */
export function forgetGone(supervisor: Pick<Supervisor, 'statuses' | 'record' | 'acknowledgeGone'>): void {
  const gone = (supervisor.statuses() ?? []).filter(({ id }) => supervisor.record(id)?.gone).map(({ id }) => id);
  supervisor.acknowledgeGone(gone);
}
