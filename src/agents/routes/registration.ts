import { type ControlPlane, FIELD_MANAGERS } from '../../api/names.ts';
import type { ReadStores } from '../../datastore/stores.ts';
import { json, type Reply } from '../../http/reply.ts';
import { createOrUpdate, type KubeClient, ownerReference } from '../../kube/mod.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { createTokenBuckets } from '../../lib/token-bucket.ts';
import { DomainError } from '../../rules/errors.ts';
import type { Lookups } from '../../rules/inputs.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { systemApplicationName } from '../../subjects/nodes/rules/system-application.ts';
import {
  controllerFromBody,
  requireRunnable,
  withController,
} from '../../subjects/workloads/rules/controller-entry.ts';
import type { AgentCall, Observe } from '../channel/call.ts';
import { AgentFailure, notReady } from '../channel/failure.ts';

export interface RegistrationOptions {
  client: Pick<KubeClient, 'find' | 'create' | 'replace'>;
  stores: Pick<ReadStores, 'applications'>;
  lookups: Lookups;
  namespace: string;
  controlPlane?: ControlPlane | undefined;
  observe: Observe;
  clock: Clock;
  log: Log;
}

/** Limit of valid registrations of one node, which read and may write the datastore. An agent that is refused asks every 30 s. */
const REGISTRATIONS = { perSecond: 1 / 30, burst: 5 };
const CALL_MS = 10_000;
const MESSAGE_LENGTH = 1_024;

/**
 * `POST /agent/controller/register`: the controller that runs on a node of the system becomes the entry `controller` of its
 * application of the system, by its uuid. A debug shell may be in the same application, which REST and the leader write for it:
 * each write is conditional, and a lost race is repeated with what the API server has then.
 */
export function createRegistration(options: RegistrationOptions): (call: AgentCall, body: unknown) => Promise<Reply> {
  const { client, stores, lookups, namespace, controlPlane, observe, clock, log } = options;
  const registrations = createTokenBuckets({ clock, ...REGISTRATIONS });

  async function register({ node, uuid: nodeUuid }: AgentCall, body: unknown): Promise<string> {
    const entry = controllerFromBody(body, node);
    if (!registrations.take(nodeUuid))
      throw new AgentFailure('TOO_MANY_REQUESTS', 'this node registers its controller too often', {
        retryAfterSeconds: Math.ceil(registrations.waitMs(nodeUuid) / 1_000),
      });
    const name = systemApplicationName(node);
    // Read from the API server: an older version of a store could make a change look like a repetition.
    const { object, written } = await createOrUpdate(
      client,
      RESOURCES.applications,
      { namespace, name },
      (present) => {
        if (present?.metadata.deletionTimestamp)
          throw notReady(`the application ${name} is being deleted: register again once it is gone`);
        const after = withController(present, node, entry);
        if (after === present) return present;
        requireRunnable(after, entry, node, lookups);
        // With its node it ends, whatever has crashed.
        return { ...after, metadata: { ...after.metadata, ownerReferences: [ownerReference(node)] } };
      },
      { call: { fieldManager: FIELD_MANAGERS.controller, timeoutMs: CALL_MS } },
    );
    if (written && object) {
      stores.applications.observe(object);
      log.info({ node: node.metadata.name, application: name, uuid: entry.uuid }, 'A controller is registered');
    }
    return entry.uuid;
  }

  return async (call, body) => {
    observe(call);
    if (controlPlane !== 'remote' || call.node.spec.isSystem !== true)
      throw new AgentFailure('SYSTEM_NODE_REQUIRED', 'only a node of the system registers a controller');
    try {
      return json({ uuid: await register(call, body) });
    } catch (error) {
      throw error instanceof DomainError ? refusal(error) : error;
    }
  };
}

/** Codes of REST that agents know; every other refusal of a rule is 400. */
const CODES = { REGISTRY_NOT_FOUND: 'REGISTRY_NOT_FOUND', DUPLICATE_NAME: 'DUPLICATE_NAME' } as const;

const refusal = ({ code, message }: DomainError) =>
  new AgentFailure(
    (CODES as Partial<Record<typeof code, (typeof CODES)[keyof typeof CODES]>>)[code] ?? 'VALIDATION_ERROR',
    message.slice(0, MESSAGE_LENGTH),
  );
