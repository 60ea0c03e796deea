import type { VerdictReason } from '../api/conditions.ts';
import type { Application, MicroserviceEntry } from '../api/v3/index.ts';
import { verdict, worldWith } from '../domain/application/verdict.ts';
import { verdictError } from '../domain/errors.ts';
import type { Verdict } from '../domain/inputs.ts';
import { canonicalJson } from '../wire/digest.ts';
import type { Ports } from './ports.ts';

/** What a verdict may be about that another replica has created, and our view does not show yet. */
const LATE: Partial<Record<VerdictReason, 'nodes' | 'registries' | 'shared'>> = {
  NodeNotFound: 'nodes',
  RuntimeNotAvailable: 'nodes',
  HostNotFound: 'nodes',
  RegistryNotFound: 'registries',
  RegistryNotReady: 'registries',
  RegistryWrongType: 'registries',
  SecretNotFound: 'shared',
  SecretKeyNotFound: 'shared',
  ConfigMapNotFound: 'shared',
  ConfigMapKeyNotFound: 'shared',
};

/**
 * Refuses a write with the words that the reconciler would use for it. Only entries that the write adds or changes are
 * judged: what was accepted before keeps nobody from changing something else.
 */
export async function judge(
  ports: Ports,
  after: Application,
  before: Application | undefined,
  signal: AbortSignal,
): Promise<void> {
  const old = new Map(before?.spec.microservices?.map((entry) => [entry.name, canonicalJson(entry)]));
  const changed = (after.spec.microservices ?? []).filter((entry) => old.get(entry.name) !== canonicalJson(entry));
  if (changed.length === 0) return;
  const refreshed = new Set<string>();
  for (;;) {
    const negative = firstNegative(ports, after, changed);
    if (!negative) return;
    const late = LATE[negative.verdict.reason];
    if (!late || refreshed.has(late)) throw refusal(negative);
    refreshed.add(late);
    await ports[late].refresh(signal);
  }
}

interface Negative {
  entry: MicroserviceEntry;
  verdict: Verdict;
}

function firstNegative(ports: Ports, after: Application, entries: readonly MicroserviceEntry[]): Negative | undefined {
  const world = worldWith(ports.world, after);
  for (const entry of entries) {
    const negative = verdict(after, entry, world, { writing: true });
    if (negative) return { entry, verdict: negative };
  }
  return undefined;
}

const refusal = ({ entry, verdict: { message, ...rest } }: Negative) =>
  verdictError({ ...rest, message: `microservice ${entry.name}: ${message}` });
