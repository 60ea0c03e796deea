import type { EdgeNode } from '../../../../api/v3/index.ts';
import type { Verdict } from '../../../../rules/inputs.ts';
import { roleVerdict } from '../../../accounts/rules/service-account.ts';
import { resolveHost } from '../application/extra-hosts.ts';
import { busAccessMissing } from '../application/not-acting.ts';
import { resolveEnv } from '../entry/env.ts';
import type { VerdictInput } from './rule.ts';

export function envResolves({ entry, lookups }: VerdictInput): Verdict | undefined {
  for (const item of entry.container.env ?? []) {
    const resolved = resolveEnv(item, lookups);
    if ('verdict' in resolved) return resolved.verdict;
  }
  return undefined;
}

export function extraHostsResolve({ entry, node, lookups }: VerdictInput): Verdict | undefined {
  for (const host of node ? (entry.container.extraHosts ?? []) : []) {
    const resolved = resolveHost(host, node as EdgeNode, lookups);
    if ('verdict' in resolved) return resolved.verdict;
  }
  return undefined;
}

export const roleIsFound = ({ entry: { serviceAccount } }: VerdictInput): Verdict | undefined =>
  serviceAccount && roleVerdict(serviceAccount.roleRef, 'serviceAccount.roleRef');

/** A write is refused; one that is stored already says so in NotSupportedYet, since nothing acts on the bus yet. */
export function busAccessIsGranted({ application, entry, writing }: VerdictInput): Verdict | undefined {
  const missing = writing ? busAccessMissing(application, entry) : undefined;
  if (missing === undefined) return undefined;
  return {
    reason: 'BusAccessNotGranted',
    status: 400,
    code: 'BUS_ACCESS_NOT_GRANTED',
    field: 'busConfig',
    message: `busConfig.busAccess ${missing}`,
  };
}
