import { check, type Found, failed, warning } from './check.ts';
import type { DoctorContext } from './context.ts';

/** Checks of what a running agent says of itself. */
export const SELF_CHECKS = [
  check({
    name: 'position',
    about: 'where the machine is, with gpsMode dynamic or auto',
    problems: {
      unknown: warning(
        'The message says where to look: the receiver and its cable, its speed (stty), or the address in gpsLookupUrl. The agent tries again by itself.',
      ),
    },
    run: ({ daemon, config: { gpsMode } }: DoctorContext) =>
      warningOf(daemon, 'position: ', { problem: 'unknown', ok: `gpsMode is ${gpsMode}` }),
  }),
  check({
    name: 'edge-guard',
    about: 'whether this is the machine of the identity',
    problems: {
      refused: failed(
        'Where the hardware was changed on purpose: skerry-agent edge-guard accept. On a copy of another machine: skerry-agent deprovision --keep-local, and provision it as a node of its own. Containers run on meanwhile.',
      ),
    },
    run: ({ daemon, config: { edgeGuardFrequency } }: DoctorContext) =>
      warningOf(daemon, 'edge guard: ', {
        problem: 'refused',
        ok: edgeGuardFrequency > 0 ? 'it is' : 'nobody asked for it (edgeGuardFrequency)',
      }),
  }),
];

/** What a running agent warns of with this beginning. */
async function warningOf<P extends string>(
  daemon: DoctorContext['daemon'],
  beginning: string,
  { problem, ok }: { problem: P; ok: string },
): Promise<Found<P>> {
  const view = await daemon();
  if (view.state !== 'running') return { skipped: 'no running agent says so' };
  const found = view.status.warnings.find((each) => each.startsWith(beginning));
  return found === undefined ? { ok } : { problem, what: found.slice(beginning.length) };
}
