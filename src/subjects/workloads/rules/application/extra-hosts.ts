import { z } from 'zod';
import type { EdgeNode } from '../../../../api/v3/index.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { placedOn } from '../../../nodes/rules/placement/entries.ts';
import { hostOf } from '../../../nodes/rules/settings.ts';

/** A read, which shows the address alone, need not know the microservices of other nodes. */
type HostLookups = Pick<Lookups, 'nodeByName' | 'applicationsOn'> & Partial<Pick<Lookups, 'applicationByName'>>;

/**
 * The address of an extra host on a node, or why it has none (docs/spec/workloads.md#extra-hosts): an IP address,
 * `${Agents.<node>}`, or `${Apps.<application>.<microservice>.local}` of the same node. A plain name is not an address:
 * it could be that of a microservice, and no engine accepts one.
 */
export function resolveHost(
  host: { name: string; address: string },
  node: EdgeNode,
  lookups: HostLookups,
): { address: string } | { verdict: Verdict } {
  const { address } = host;
  if (isAddress(address)) return { address };
  const refuse = (verdict: Omit<Verdict, 'field'>) => ({
    verdict: { ...verdict, field: 'container.extraHosts', message: `extra host ${host.name}: ${verdict.message}` },
  });
  const agent = agentInHost(address);
  if (agent !== undefined) {
    const other = lookups.nodeByName(agent);
    if (!other)
      return refuse({
        reason: 'HostNotFound',
        status: 404,
        code: 'NOT_FOUND_HOST_TEMPLATE',
        message: `no node "${agent}"`,
      });
    const known = hostOf(other);
    if (known) return { address: known };
    return refuse({
      reason: 'HostNotFound',
      status: 400,
      code: 'NOT_FOUND_HOST_TEMPLATE',
      message: `the node "${agent}" has no host, and its agent has reported no address yet`,
      passes: true,
    });
  }
  const app = /^\$\{Apps\.(.+)\.local\}$/.exec(address)?.[1];
  if (app !== undefined) {
    if (namesMicroservice(app, node, lookups)) return { address: app };
    const isElsewhere = existsAnywhere(app, lookups);
    return refuse({
      reason: 'HostNotFound',
      status: isElsewhere ? 400 : 404,
      code: 'NOT_FOUND_APPS_TEMPLATE',
      message: isElsewhere
        ? `the microservice "${app}" is not on the node "${v3Name(node)}"; only microservices of the same node have an address`
        : `no microservice "${app}" (<application>.<microservice>) on the node "${v3Name(node)}"`,
    });
  }
  return refuse({
    reason: 'HostTemplateInvalid',
    status: 400,
    code: 'INVALID_HOST_TEMPLATE',
    message: `"${address}" must be an IP address, host-gateway, \${Agents.<node>} or \${Apps.<application>.<microservice>.local}`,
  });
}

/** The name of the node whose address an extra host is to have, as in `${Agents.gw-1}`; undefined for another address. */
export const agentInHost = (address: string): string | undefined => /^\$\{Agents\.(.+)\}$/.exec(address)?.[1];

/** Engines resolve `host-gateway` to the address of the machine. */
function isAddress(text: string): boolean {
  return text === 'host-gateway' || IP.safeParse(text).success;
}
const IP = z.union([z.ipv4(), z.ipv6()]);

/** Both names may contain dots, so every split is tried. */
function namesMicroservice(text: string, node: EdgeNode, lookups: HostLookups): boolean {
  const entriesOf = placedOn(node, lookups);
  return lookups.applicationsOn(node).some((application) => {
    const prefix = `${v3Name(application)}.`;
    return text.startsWith(prefix) && entriesOf(application).some((entry) => text === `${prefix}${entry.name}`);
  });
}

/** Whether a microservice has the name, on whatever node. */
function existsAnywhere(text: string, { applicationByName }: HostLookups): boolean {
  return [...text.matchAll(/\./g)].some(({ index }) =>
    applicationByName?.(text.slice(0, index))?.spec.microservices?.some(({ name }) => name === text.slice(index + 1)),
  );
}
