import type { Application } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { storeOf } from '../../../datastore/stores.ts';
import { type Kind, referenceKey, refsTo } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import {
  type Change,
  type Controller,
  createController,
  done,
  keyOf,
  type Outcome,
  parseKey,
  requeueAfter,
  type Watch,
  watching,
} from '../../../kube/mod.ts';
import { createTokenBuckets } from '../../../lib/token-bucket.ts';
import { RenderTimeout } from '../../../rules/renderer.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { KINDS, RESOURCES } from '../../kinds.ts';
import {
  abandonedTemplates,
  NOT_RENDERED,
  type PendingTemplate,
  pendingTemplates,
} from '../rules/templates/pending.ts';
import { createTemplateApply, verdictOf } from './template-apply.ts';

/** Why the templates of an application are not rendered. */
export interface TemplateVerdicts {
  /** of the template of the application */
  obstacle?: Verdict;
  /** of those of its entries that failed, by name */
  failures: ReadonlyMap<string, Verdict>;
}

const TEMPLATES = [KINDS.applicationTemplates as Kind, KINDS.microserviceTemplates as Kind];

/** What failed is tried again after this time, and at once when the reference, the template or the application changes. */
const RETRY_MS = 5 * 60_000;

/**
 * A run renders nothing more after this time, and the application goes to the end of the queue: all the templates of one that
 * take milliseconds are rendered in one run, and one that takes all the time of the renderer delays others only by itself.
 */
const TURN_MS = 1_000;

/**
 * What a document may take in the first turn of an application. One that takes longer makes the application slow: its documents
 * then have all the time that the renderer gives, and all slow applications share half of the renderer's time, so that
 * many of them delay the others by their first turns alone. Who edits an application does not stand in the object, so a user
 * with many of them cannot be told from many users.
 */
const FIRST_MS = 250;
const SLOW_SHARE = { perSecond: 500, burst: 3_000 };
const SHARED = '';

interface Attempt {
  token: string;
  until: number;
  verdict: Verdict;
}

/**
 * Renders the templates that kubectl named, once for each change of the reference. It is a controller of its own, since all
 * templates share one renderer: statuses of applications do not wait for it. `onFailure` gets the key of an application whose
 * verdicts changed.
 */
export function createTemplateController(
  deps: ControllerDependencies,
  onFailure: (key: string) => void,
): { controller: Controller; verdicts(application: Application): TemplateVerdicts } {
  const { client, stores, clock, log, metrics } = deps;
  const resource = RESOURCES.applications;
  const { templateOf, apply, release } = createTemplateApply(deps);
  /** by application and annotation; saved one by one, so that a run that ends early tries nothing twice */
  const attempts = new Map<string, Map<string, Attempt>>();

  /** keys of applications whose documents take longer than a first turn */
  const slow = new Set<string>();
  /** milliseconds of rendering that slow applications may use */
  const slowTime = createTokenBuckets({ clock: { now: clock }, ...SLOW_SHARE });

  const tokenOf = (application: Application, pending: PendingTemplate) => {
    const found = templateOf(pending);
    return [pending.hash, application.metadata.generation, found?.metadata.uid, found?.metadata.generation].join(' ');
  };
  const failureOf = (application: Application, pending: PendingTemplate): Attempt | undefined => {
    const known = attempts.get(keyOf(application))?.get(pending.annotation);
    return known?.token === tokenOf(application, pending) ? known : undefined;
  };

  async function reconcile(key: string, signal: AbortSignal): Promise<Outcome> {
    const { namespace, name } = parseKey(key);
    const stored = stores.applications.get(namespace, name);
    if (!stored) slow.delete(key);
    const waitMs = slow.has(key) ? slowTime.waitMs(SHARED) : 0;
    if (waitMs > 0) return requeueAfter(waitMs);
    // The store may not have the writes of the last run yet, and it has no managed fields.
    const live = stored && hasWork(stored) ? await client.find(resource, parseKey(key), { signal }) : undefined;
    if (!live || !hasWork(live)) {
      attempts.delete(key);
      return done();
    }
    forgetOthers(key, live);
    let application = live;
    for (const annotation of abandonedTemplates(application))
      application = await release(application, annotation, signal);
    const began = clock();
    // What the template of the application adds may name templates itself.
    for (const isOfEntry of [false, true])
      for (const pending of pendingTemplates(application).filter(({ entry }) => (entry !== undefined) === isOfEntry)) {
        if ((failureOf(application, pending)?.until ?? 0) > clock()) continue;
        if (clock() - began >= TURN_MS) return requeueAfter(0);
        const wasSlow = slow.has(key);
        if (wasSlow && slowTime.waitMs(SHARED) > 0) return requeueAfter(slowTime.waitMs(SHARED));
        application = await attempt(application, pending, signal);
        if (!wasSlow && slow.has(key)) return requeueAfter(0);
      }
    const open = pendingTemplates(application).flatMap((pending) => failureOf(application, pending) ?? []);
    return open.length > 0 ? requeueAfter(Math.max(0, Math.min(...open.map(({ until }) => until)) - clock())) : done();
  }

  /** Attempts of templates that the application no longer names. */
  function forgetOthers(key: string, application: Application): void {
    const pending = new Set(pendingTemplates(application).map(({ annotation }) => annotation));
    const failed = attempts.get(key);
    for (const annotation of failed?.keys() ?? []) if (!pending.has(annotation)) failed?.delete(annotation);
  }

  /** The application with what a template adds; unchanged where that fails. */
  async function attempt(
    application: Application,
    pending: PendingTemplate,
    signal: AbortSignal,
  ): Promise<Application> {
    const key = keyOf(application);
    const isSlow = slow.has(key);
    const began = clock();
    try {
      const applied = await apply(application, pending, { signal, timeMs: isSlow ? undefined : FIRST_MS });
      if (isSlow && clock() - began < FIRST_MS) slow.delete(key);
      return applied;
    } catch (error) {
      if (!isSlow && error instanceof RenderTimeout) {
        slow.add(key);
        return application;
      }
      const verdict = verdictOf(error);
      if (!verdict) throw error;
      const failed = attempts.get(key) ?? new Map<string, Attempt>();
      failed.set(pending.annotation, { token: tokenOf(application, pending), until: clock() + RETRY_MS, verdict });
      attempts.set(key, failed);
      onFailure(key);
      return application;
    } finally {
      if (isSlow) slowTime.charge(SHARED, clock() - began);
    }
  }

  function verdicts(application: Application): TemplateVerdicts {
    const failures = new Map<string, Verdict>();
    let obstacle: Verdict | undefined;
    for (const pending of pendingTemplates(application)) {
      const verdict = failureOf(application, pending)?.verdict;
      if (!pending.entry) obstacle = verdict ?? NOT_RENDERED;
      else if (verdict) failures.set(pending.entry.name, verdict);
    }
    return { ...(obstacle && { obstacle }), failures };
  }

  const controller = createController({
    name: 'template',
    watches: watchesOf(deps),
    reconcile: (key, { signal }) => reconcile(key, signal),
    // There is one renderer, and a turn must not pass while another run uses it.
    concurrency: 1,
    log,
    metrics,
  });
  return { controller, verdicts };
}

/** Applications, and the templates that they name. */
const watchesOf = ({ stores }: ControllerDependencies): Watch[] => [
  watching(stores.applications, (change) => (changesMoreThanStatus(change) ? [change.key] : [])),
  ...TEMPLATES.map((kind) => ({
    ...watching(storeOf(stores, kind), (change) =>
      isEdited(change)
        ? refsTo(kind, change.object).flatMap((ref) =>
            stores.applications.byIndex('ref', referenceKey({ to: kind.key, ref })).map(keyOf),
          )
        : [],
    ),
    // Other templates are rendered also where the API server does not know this kind yet.
    whenSynced: async () => {},
  })),
];

const hasWork = (application: Application) =>
  application.metadata.deletionTimestamp === undefined &&
  (pendingTemplates(application).length > 0 || abandonedTemplates(application).length > 0);

const isEdited = ({ type, object, previous }: Change<KindObject>) =>
  type === 'delete' ||
  !previous ||
  previous.metadata.uid !== object.metadata.uid ||
  previous.metadata.generation !== object.metadata.generation;
