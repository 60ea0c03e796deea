import type { EdgeNode } from '../../../../api/v3/index.ts';
import { BUS_CREDS_MOUNT, BUS_ENV_NAMES, hasBusAccess } from '../../../../rules/bus-access.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { roleVerdict } from '../../../accounts/rules/service-account.ts';
import { busAccessOn } from '../../../nodes/rules/bus-access.ts';
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

export const roleIsFound = ({ entry: { serviceAccount }, lookups }: VerdictInput): Verdict | undefined =>
  serviceAccount &&
  roleVerdict(serviceAccount.roleRef, 'serviceAccount.roleRef', (name) => lookups.find('roles', name) !== undefined);

/** A write is refused; an entry that is stored already has no access then, and says so in NotSupportedYet. */
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

/** The variables and the directory of bus access are computed: an entry with access has none of its own at their places. */
export function busPlacesAreFree({ application, entry, lookups }: VerdictInput): Verdict | undefined {
  if (!lookups.bus || !hasBusAccess(application, entry)) return undefined;
  const variable = entry.container.env?.find(({ key }) => BUS_ENV_NAMES.includes(key));
  if (variable)
    return {
      reason: 'ReservedEnv',
      status: 400,
      code: 'RESERVED_ENV',
      field: 'container.env',
      message: `the env variable "${variable.key}" is refused: the controller sets it for a microservice with access to the message bus; give it another name, or turn busConfig.busAccess off`,
    };
  const mapping = entry.container.volumes?.find(({ containerDestination }) => covers(containerDestination));
  if (!mapping) return undefined;
  return {
    reason: 'VolumeInvalid',
    status: 400,
    code: 'INVALID_VOLUME_MAPPING',
    field: 'container.volumes',
    message: `the volume mapping to "${mapping.containerDestination}" is refused: the credentials of the message bus are at ${BUS_CREDS_MOUNT}; map it elsewhere, or turn busConfig.busAccess off`,
  };
}

/** Whether a mapping has the directory of the credentials, or something of it. */
function covers(containerDestination: string): boolean {
  const path = containerDestination.replace(/(?<!\/)\/+$/, '');
  return path === BUS_CREDS_MOUNT || path.startsWith(`${BUS_CREDS_MOUNT}/`);
}

/** A microservice with access has a server that it reaches: on its machine, or the hub. */
export function busIsReachable({ application, entry, node, lookups }: VerdictInput): Verdict | undefined {
  if (!node || busAccessOn({ application, entry, node }, lookups.bus) !== 'no server') return undefined;
  return {
    reason: 'BusNotReachable',
    status: 400,
    code: 'BUS_NOT_REACHABLE',
    field: 'busConfig',
    message:
      'busConfig.busAccess needs a server of the message bus: set busMode of the node to leaf or server, or configure the hub (PUT /bus/hub)',
  };
}
