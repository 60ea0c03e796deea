import { AGENT_GROUP, CONTAINER_LABELS, NODE_TOKEN_ISSUER, RESERVED_LABEL_PREFIX } from '../../../src/api/names.ts';

/** Version of the agent, as it is reported and sent with each request. */
export const AGENT_VERSION = '0.1.0';

/** `apiVersion` of the manifests that are deployed on a machine. */
export const MANIFEST_VERSION = `${AGENT_GROUP}/v1`;

/** Which rebuild order a container carries out; one more in addition to CONTAINER_LABELS. */
export const LABEL_REBUILD_COUNT = `${RESERVED_LABEL_PREFIX}rebuild-order`;

/** Labels by which programs of others group containers. They identify nothing here. */
export const CUSTOMARY_LABELS = {
  name: 'app.kubernetes.io/name',
  instance: 'app.kubernetes.io/instance',
  partOf: 'app.kubernetes.io/part-of',
  managedBy: 'app.kubernetes.io/managed-by',
} as const;

const { uuid, node, scope, role, system, engine, hostNetwork, healthCheck } = CONTAINER_LABELS;
/** Labels of a container that say something to people and programs (docs/spec/agent-local-api.md#stamps). */
export const STAMPS: readonly string[] = [
  ...Object.values(CUSTOMARY_LABELS),
  ...[uuid, node, scope, role, system, engine, hostNetwork, healthCheck],
];

/** Beginning of the name of the network that the containers of one agent share. */
export const NETWORK_NAME = 'skerry';

/** Claims of the admin's token; all tokens of the local API have this issuer. */
export const LOCAL_API = {
  issuer: NODE_TOKEN_ISSUER,
  audience: 'skerry-agent://api/v1',
  use: 'agentapi',
  adminPrefix: 'system:agentadmin:',
} as const;

/** Claims of the tokens with which workloads ask the local API. */
export const WORKLOAD_TOKEN = { audience: NODE_TOKEN_ISSUER, use: 'serviceaccount' } as const;

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

/** Whether a uuid of the controller can be a part of names and paths of this machine. */
export function isPlainName(uuid: string): boolean {
  return PLAIN_NAME.test(uuid);
}
