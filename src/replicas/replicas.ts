import { ANNOTATIONS, FIELD_MANAGERS, LABELS } from '../api/names.ts';
import { microTime } from '../kube/micro-time.ts';
import { createOrUpdate, isNotFound, type KubeClient, LEASES, type Lease } from '../kube/mod.ts';
import { jittered } from '../lib/backoff.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { clockSkew, type LoginState } from '../rules/login-state.ts';
import { uuid5 } from '../rules/names.ts';
import { REPLICA_TIMES, type Replica, replicasToRemove } from '../rules/replica.ts';

/** The replicas of this controller. Each has a Lease, which it renews; these are few and seldom read, so no store has them. */
export interface Replicas {
  list(signal: AbortSignal): Promise<readonly Replica[]>;
  find(uuid: string, signal: AbortSignal): Promise<Replica | undefined>;
  /** Undefined when there is none. */
  setHost(uuid: string, host: string, signal: AbortSignal): Promise<Replica | undefined>;
  /** Marks it inactive until its next heartbeat; it stays in the list of inactive ones. False when there is none. */
  deactivate(uuid: string, signal: AbortSignal): Promise<boolean>;
}

export interface ReplicasOptions {
  client: KubeClient;
  namespace: string;
  clock?: Clock;
}

const CALL_MS = 5_000;

/** What a replica says about itself. */
interface About {
  host: string;
  processId: number;
  version?: string;
  agentRelease?: string;
  login?: LoginState;
}
/** What users changed. */
interface Edit {
  host?: string;
  at?: string;
}

/** The uuid of a replica follows from its name: a container that restarts in its pod is the same replica. */
export const replicaUuid = (namespace: string, identity: string) => uuid5(namespace, identity);

const leaseName = (uuid: string) => `skerry-replica-${uuid}`;

export function createReplicas({ client, namespace, clock = systemClock }: ReplicasOptions): Replicas {
  const ref = (uuid: string) => ({ namespace, name: leaseName(uuid) });

  /** Changes a Lease as it is now; undefined when there is none. */
  async function edit(uuid: string, change: object, signal: AbortSignal): Promise<Replica | undefined> {
    if (!UUID.test(uuid)) return undefined;
    try {
      const options = { fieldManager: FIELD_MANAGERS.rest, signal };
      const lease = await client.patch(LEASES, ref(uuid), { type: 'merge', body: change }, options);
      return replicaOf(lease, clock.wall());
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  return {
    list: async (signal) => (await listReplicas({ client, namespace, clock }, signal)).map(({ replica }) => replica),
    async find(uuid, signal) {
      const lease = UUID.test(uuid) ? await client.find(LEASES, ref(uuid), { signal }) : undefined;
      return lease && replicaOf(lease, clock.wall());
    },
    setHost: (uuid, host, signal) =>
      edit(uuid, { metadata: { annotations: edited({ host, at: isoTime(clock) }) } }, signal),
    async deactivate(uuid, signal) {
      const now = await edit(uuid, { spec: { holderIdentity: null } }, signal);
      return now !== undefined;
    },
  };
}

const UUID = /^[0-9a-f-]{36}$/;
const isoTime = (clock: Clock) => new Date(clock.wall()).toISOString();
const edited = (edit: Edit) => ({ [ANNOTATIONS.replicaEdit]: JSON.stringify(edit) });

async function listReplicas(
  { client, namespace, clock }: Required<ReplicasOptions>,
  signal: AbortSignal,
): Promise<{ lease: Lease; replica: Replica }[]> {
  const { items } = await client.list(LEASES, { namespace, labelSelector: `${LABELS.replica}=true`, signal });
  return items.map((lease) => ({ lease, replica: replicaOf(lease, clock.wall()) }));
}

function replicaOf({ metadata, spec = {} }: Lease, now: number): Replica {
  const about = parsed<About>(metadata.annotations?.[ANNOTATIONS.replica]);
  const edit = parsed<Edit>(metadata.annotations?.[ANNOTATIONS.replicaEdit]);
  const createdAt = metadata.creationTimestamp ?? '';
  const lastHeartbeat = spec.renewTime ?? createdAt;
  return {
    uuid: metadata.name.slice(leaseName('').length),
    host: edit.host ?? about.host ?? '',
    processId: about.processId ?? 0,
    lastHeartbeat,
    isActive: Boolean(spec.holderIdentity) && now - Date.parse(lastHeartbeat) <= REPLICA_TIMES.activeMs,
    createdAt,
    ...(about.version !== undefined && { version: about.version }),
    ...(about.agentRelease !== undefined && { agentRelease: about.agentRelease }),
    updatedAt: edit.at !== undefined && Date.parse(edit.at) > Date.parse(lastHeartbeat) ? edit.at : lastHeartbeat,
  };
}

/** What an active replica says of logins, and by how many seconds its clock is ahead of the API server's. */
export interface ReplicaNews {
  identity: string;
  login?: LoginState;
  skewSeconds?: number;
}

/** What the active replicas say in their Leases. */
export async function listNews(options: Required<ReplicasOptions>, signal: AbortSignal): Promise<ReplicaNews[]> {
  const found = await listReplicas(options, signal);
  return found.flatMap(({ lease: { metadata, spec }, replica }) => {
    if (!replica.isActive) return [];
    const { login } = parsed<About>(metadata.annotations?.[ANNOTATIONS.replica]);
    // The API server writes the times of managers by its own clock.
    const managers = (metadata.managedFields ?? []) as { manager?: string; time?: string }[];
    const written = managers.find(({ manager }) => manager === FIELD_MANAGERS.controller)?.time;
    const skewSeconds = clockSkew(spec?.renewTime, written);
    return [
      {
        identity: spec?.holderIdentity ?? '',
        ...(login && { login }),
        ...(skewSeconds !== undefined && { skewSeconds }),
      },
    ];
  });
}

function parsed<T>(text: string | undefined): Partial<T> {
  try {
    return JSON.parse(text ?? '{}') as Partial<T>;
  } catch {
    return {};
  }
}

export interface HeartbeatOptions extends ReplicasOptions {
  /** name of this replica, unique */
  identity: string;
  host: string;
  /** of the controller */
  version: string;
  /** Version of the latest release of the agent that this replica has for machines. */
  agentRelease?: () => Promise<string | undefined>;
  login?: () => LoginState;
  log?: Log;
}

/** The Lease of this replica, kept until disposed. */
export interface Heartbeat extends AsyncDisposable {
  /** replicas that were active at the last heartbeat, this one included; undefined before the first one */
  readonly active: number | undefined;
}

/** Keeps the Lease of this replica until disposed; then it is inactive at once. Failures are repeated, and stop nothing. */
export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { client, namespace, identity, host, version, agentRelease, login, log = silentLog } = options;
  const { clock = systemClock } = options;
  const uuid = replicaUuid(namespace, identity);
  const ref = { namespace, name: leaseName(uuid) };
  const stop = new AbortController();
  let about: About = { host, processId: process.pid, version };
  const startedAt = microTime(clock.wall());
  let cleanedAt = Number.NEGATIVE_INFINITY;
  let active: number | undefined;

  async function beat(call: { timeoutMs: number; signal?: AbortSignal }, holderIdentity: string | undefined) {
    await createOrUpdate<Lease>(
      client,
      LEASES,
      ref,
      (known) => ({
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        ...known,
        metadata: {
          ...ref,
          ...known?.metadata,
          labels: {
            ...known?.metadata.labels,
            [LABELS.replica]: 'true',
            [LABELS.version]: version.replaceAll(/[^\w.-]/g, '_'),
          },
          annotations: { ...known?.metadata.annotations, [ANNOTATIONS.replica]: JSON.stringify(about) },
        },
        spec: {
          ...(holderIdentity !== undefined && { holderIdentity }),
          leaseDurationSeconds: REPLICA_TIMES.activeMs / 1000,
          acquireTime: startedAt,
          renewTime: microTime(clock.wall()),
        },
      }),
      { call: { fieldManager: FIELD_MANAGERS.controller, ...call } },
    );
  }

  async function look(signal: AbortSignal) {
    const leases = await listReplicas({ client, namespace, clock }, signal);
    active = leases.filter(({ replica }) => replica.isActive).length;
    if (cleanedAt + REPLICA_TIMES.cleanMs > clock.now()) return;
    await clean(leases, signal);
    cleanedAt = clock.now();
  }

  async function clean(leases: Awaited<ReturnType<typeof listReplicas>>, signal: AbortSignal) {
    const now = clock.wall();
    const old = new Set(
      replicasToRemove(
        leases.map(({ replica }) => replica),
        now,
      ),
    );
    for (const { lease, replica } of leases) {
      if (!old.has(replica)) continue;
      // A replica that has come back since then keeps its Lease.
      const { resourceVersion } = lease.metadata;
      await client
        .delete(LEASES, { namespace, name: lease.metadata.name }, { preconditions: { resourceVersion }, signal })
        .catch((err: unknown) => log.debug({ err }, 'A replica was not removed'));
    }
  }

  async function run() {
    while (!stop.signal.aborted) {
      try {
        const release = await agentRelease?.();
        about = {
          ...{ host, processId: process.pid, version },
          ...(release !== undefined && { agentRelease: release }),
          ...(login && { login: login() }),
        };
        await beat({ timeoutMs: CALL_MS, signal: stop.signal }, identity);
        await look(AbortSignal.any([stop.signal, AbortSignal.timeout(30_000)]));
      } catch (err) {
        if (!stop.signal.aborted) log.warn({ err }, 'The Lease of this replica cannot be renewed');
      }
      await sleep(jittered(REPLICA_TIMES.heartbeatMs, 0.1, Math.random), stop.signal, clock);
    }
  }

  const running = run();
  return {
    get active() {
      return active;
    },
    async [Symbol.asyncDispose]() {
      if (stop.signal.aborted) return;
      stop.abort();
      await running;
      await beat({ timeoutMs: 2_000 }, undefined).catch((err: unknown) =>
        log.debug({ err }, 'The Lease of this replica could not be released'),
      );
    },
  };
}
