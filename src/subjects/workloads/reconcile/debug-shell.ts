import { ANNOTATIONS, FIELD_MANAGERS } from '../../../api/names.ts';
import type { Application } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { applicationsOn } from '../../../datastore/lookups.ts';
import {
  type Controller,
  createController,
  done,
  keyOf,
  type Outcome,
  parseKey,
  refOf,
  requeueAfter,
  type Watch,
  watching,
} from '../../../kube/mod.ts';
import { RESOURCES } from '../../kinds.ts';
import { debugShellGoesAt, debugShellOf, isTimedDebugShell, withoutDebugShell } from '../rules/debug-shell.ts';

/** How often a shell is looked at that is in use, or while sessions of other replicas may be missing. */
const CHECK_MS = 60_000;
const UNKNOWN_MS = 2_000;

/** Removes debug shells that are not in use any more, and the application with them when it was made for that. */
export function createDebugShellController(deps: ControllerDependencies): Controller {
  const { client, stores, lookups, sessions, listeningSince, clock, log, metrics } = deps;
  /** when the last session of a shell ended, as this leader saw it; infinite while there is one */
  const endedAt = new Map<string, number>();

  function isUsed(application: Application): boolean {
    const { uuid, node } = debugShellOf(application) ?? {};
    const open = (node !== undefined && sessions?.lists(node).exec) || [];
    return open.some(({ microserviceUuid }) => microserviceUuid === uuid);
  }

  async function remove(application: Application, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion } = application.metadata;
    const left = withoutDebugShell(application);
    if (!left) {
      await client.delete(RESOURCES.applications, refOf(application), {
        signal,
        preconditions: { uid, resourceVersion },
      });
      return;
    }
    const annotations = { [ANNOTATIONS.debugUntil]: null, [ANNOTATIONS.madeFor]: null };
    const body = { metadata: { resourceVersion, annotations }, spec: { microservices: left.spec.microservices } };
    const options = { signal, fieldManager: FIELD_MANAGERS.controller };
    await client.patch(RESOURCES.applications, refOf(application), { type: 'merge', body }, options);
  }

  async function reconcile(key: string, signal: AbortSignal): Promise<Outcome> {
    const { namespace, name } = parseKey(key);
    const application = stores.applications.get(namespace, name);
    if (!application || application.metadata.deletionTimestamp || !isTimedDebugShell(application)) {
      endedAt.delete(key);
      return done();
    }
    if (sessions && !sessions.isComplete) return requeueAfter(UNKNOWN_MS);
    if (isUsed(application)) {
      endedAt.set(key, Number.POSITIVE_INFINITY);
      return requeueAfter(CHECK_MS);
    }
    if (endedAt.get(key) === Number.POSITIVE_INFINITY) endedAt.set(key, clock());
    const goesAt = debugShellGoesAt(application, { sessionEndedAt: endedAt.get(key), since: listeningSince });
    if (goesAt === undefined) return done();
    if (goesAt > clock()) return requeueAfter(goesAt - clock());
    await remove(application, signal);
    log.info({ application: name }, 'The debug shell is removed');
    return done();
  }

  /** The application of the system on a node whose sessions changed. */
  const watchSessions: Watch = {
    whenSynced: async () => {},
    start(enqueue) {
      const listen = (uuid: string) => {
        const node = lookups.nodeByUuid(uuid);
        for (const application of node ? applicationsOn(stores, node) : [])
          if (isTimedDebugShell(application)) enqueue(keyOf(application), false);
      };
      return sessions?.subscribe(listen) ?? { [Symbol.dispose]: () => {} };
    },
  };

  return createController({
    name: 'debug-shell',
    watches: [
      watching(stores.applications, ({ key, object, previous }) =>
        isTimedDebugShell(object) || (previous && isTimedDebugShell(previous)) ? [key] : [],
      ),
      watchSessions,
    ],
    reconcile: (key, { signal }) => reconcile(key, signal),
    log,
    metrics,
  });
}
