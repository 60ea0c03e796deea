import type { VerdictReason } from '../api/conditions.ts';
import { API_VERSION, FIELD_MANAGERS } from '../api/names.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../api/v3/index.ts';
import {
  applicationRead,
  DomainError,
  nodeRead,
  nodeUuid,
  registryId,
  resolveRegistry,
  type Verdict,
  v3Name,
} from '../domain/index.ts';
import {
  abandonedTemplates,
  clashes,
  type DueTemplate,
  dueTemplates,
  entryPath,
  isOwnedByOthers,
  type ManagedFields,
  managerOf,
} from '../domain/templates/due.ts';
import { lookUps } from '../domain/templates/look-ups.ts';
import { applicationRendering, entryPart, entryRendering } from '../domain/templates/overlay.ts';
import type { LookUp, Rendering } from '../domain/templates/renderer.ts';
import { readTemplateRef } from '../domain/templates/variables.ts';
import { readApplicationUpload } from '../domain/upload/application.ts';
import { type KindObject, RESOURCES } from '../kinds/index.ts';
import { isConflict, isInvalid, keyOf, refOf } from '../kube/mod.ts';
import { referenced } from '../stores/use.ts';
import type { ControllerDependencies } from './dependencies.ts';

/** What became of the templates of an application. */
export interface Settled {
  application: Application;
  /** why the template of the application is not rendered */
  obstacle?: Verdict;
  /** the same of entries, by name */
  failures: ReadonlyMap<string, Verdict>;
  /** when to try again, without a change */
  retryMs?: number;
}

/** What failed is tried again after this time, and at once when the reference, the template or the application changes. */
const RETRY_MS = 5 * 60_000;

interface Attempt {
  token: string;
  until: number;
  verdict: Verdict;
}

/**
 * Renders the templates that kubectl named, once for each change of the reference, and applies what they add server-side
 * without force. Expressions have the rights of a viewer.
 */
export function createTemplates(deps: ControllerDependencies) {
  const { client, stores, clock } = deps;
  const resource = RESOURCES.applications;
  /** by application and annotation: what failed is not tried again at each reconcile */
  const attempts = new Map<string, Map<string, Attempt>>();
  const lookUp = viewerLookUp(deps);

  async function settle(stored: Application, signal: AbortSignal): Promise<Settled> {
    const key = keyOf(stored);
    const failures = new Map<string, Verdict>();
    let application = stored;
    let obstacle: Verdict | undefined;
    const before = attempts.get(key);
    const now = new Map<string, Attempt>();
    for (const annotation of abandonedTemplates(application))
      application = await release(application, annotation, signal);
    // What the template of the application adds may name templates itself.
    for (const isOfEntry of [false, true])
      for (const due of dueTemplates(application).filter(({ entry }) => (entry !== undefined) === isOfEntry)) {
        const token = tokenOf(application, due);
        const known = before?.get(due.annotation);
        const attempt =
          known?.token === token && known.until > clock() ? known : await attemptOf(application, due, token, signal);
        if (!('verdict' in attempt)) {
          application = attempt.application;
          continue;
        }
        now.set(due.annotation, attempt);
        if (due.entry) failures.set(due.entry.name, attempt.verdict);
        else obstacle = attempt.verdict;
      }
    if (now.size > 0) attempts.set(key, now);
    else attempts.delete(key);
    const times = [...now.values()].map(({ until }) => until - clock());
    return {
      application,
      ...(obstacle && { obstacle }),
      failures,
      ...(times.length > 0 && { retryMs: Math.max(0, ...times) }),
    };
  }

  const templateOf = ({ template: { name }, entry }: DueTemplate) => {
    return entry ? referenced(stores.microserviceTemplates, name) : referenced(stores.applicationTemplates, name);
  };

  const tokenOf = (application: Application, due: DueTemplate) => {
    const found = templateOf(due);
    return [due.hash, application.metadata.generation, found?.metadata.uid, found?.metadata.generation].join(' ');
  };

  async function attemptOf(
    application: Application,
    due: DueTemplate,
    token: string,
    signal: AbortSignal,
  ): Promise<Attempt | { application: Application }> {
    try {
      return { application: await apply(application, due, signal) };
    } catch (error) {
      const verdict = verdictOf(error);
      if (!verdict) throw error;
      return { token, until: clock() + RETRY_MS, verdict };
    }
  }

  async function apply(application: Application, due: DueTemplate, signal: AbortSignal): Promise<Application> {
    const ref = readTemplateRef(due.template, 'template');
    const found = templateOf(due);
    if (!found) throw new DomainError(404, 'TEMPLATE_NOT_FOUND', `there is no template "${ref.name}"`);
    const live = await client.get(resource, refOf(application), { signal });
    const managed = (live.metadata as { managedFields?: ManagedFields[] }).managedFields ?? [];
    const render = (rendering: Rendering) =>
      deps.templates.render(rendering, { lookUp, caller: FIELD_MANAGERS.template, signal });
    const name = v3Name(application);
    let spec: object;
    if ('application' in found.spec) {
      const rendered = await render(applicationRendering(found as never, ref, { name }, 'template'));
      const document = { kind: 'Application', metadata: { name }, spec: rendered };
      const { description, busConfig, microservices } = readApplicationUpload(document, { isAnyForm: true }).spec;
      const isFree = (field: string) => !isOwnedByOthers(managed, due.manager, ['f:spec', `f:${field}`]);
      spec = {
        ...(description !== undefined && isFree('description') && { description }),
        ...(busConfig !== undefined && isFree('busConfig') && { busConfig }),
        ...(microservices && { microservices }),
      };
    } else {
      const entry = due.entry as MicroserviceEntry;
      const rendered = await render(entryRendering(found as never, ref, entry, name, 'template'));
      const part = entryPart(rendered, entry.name, ref, 'template');
      const both = clashes(entry, part, managed, due.manager);
      if (both.length > 0)
        throw new DomainError(
          409,
          'TEMPLATE_CONFLICT',
          `${both.join(', ')}: both the microservice and its template "${ref.name}" set it; leave it out of one`,
        );
      spec = { microservices: [part] };
    }
    return put(application, due.manager, { [due.annotation]: due.hash }, spec, signal);
  }

  /** The uid lets the API server refuse to create an object that was deleted. */
  const put = (
    application: Application,
    fieldManager: string,
    annotations: object,
    spec: object,
    signal: AbortSignal,
  ) => {
    const { name, namespace, uid } = application.metadata;
    const body = {
      apiVersion: API_VERSION,
      kind: resource.kind,
      metadata: { name, namespace, uid, annotations },
      spec,
    };
    return client.patch(resource, refOf(application), { type: 'apply', body }, { signal, fieldManager });
  };

  /** Removes what a template added to an entry that is gone but for that; of other entries it stays. */
  async function release(application: Application, annotation: string, signal: AbortSignal): Promise<Application> {
    const manager = managerOf(annotation);
    const [, name = ''] = manager.split('/');
    const live = await client.get(resource, refOf(application), { signal });
    const managed = (live.metadata as { managedFields?: ManagedFields[] }).managedFields ?? [];
    const isLeftOver =
      live.spec.microservices?.some((entry) => entry.name === name) &&
      !isOwnedByOthers(managed, manager, entryPath(name));
    if (isLeftOver) return put(application, manager, {}, {}, signal);
    const body = { metadata: { resourceVersion: live.metadata.resourceVersion, annotations: { [annotation]: null } } };
    return client.patch(
      resource,
      refOf(application),
      { type: 'merge', body },
      { signal, fieldManager: FIELD_MANAGERS.controller },
    );
  }

  return {
    settle,
    forget(key: string) {
      attempts.delete(key);
    },
  };
}

/** The reason of a failure that an edit can mend; undefined for all others. */
function verdictOf(error: unknown): Verdict | undefined {
  const make = (reason: VerdictReason, status: Verdict['status'], code: string, message: string): Verdict => ({
    reason,
    status,
    code,
    field: 'template',
    message: `template: ${message.replace(/^template: /, '')}`,
  });
  if (error instanceof DomainError) {
    const { status, code, message } = error;
    if (status === 404) return make('TemplateNotFound', 404, code, message);
    if (status === 409) return make('TemplateConflict', 409, code, message);
    return make('TemplateInvalid', 400, code, message);
  }
  if (isConflict(error)) {
    const fields = (error.details.causes ?? []).map(({ field, message }) => `${field}: ${message}`).sort();
    return make('TemplateConflict', 409, 'TEMPLATE_CONFLICT', fields.slice(0, 8).join('; ') || error.message);
  }
  if (isInvalid(error)) return make('TemplateInvalid', 400, 'TEMPLATE_INVALID', error.message.slice(0, 500));
  return undefined;
}

/** Look-ups that read what a viewer may list: nodes and applications, as REST shows them. */
function viewerLookUp({ stores, lookups, liveness, observations, provisioned, clock }: ControllerDependencies): LookUp {
  const isPresent = ({ metadata }: KindObject) => metadata.deletionTimestamp === undefined;
  const live = (node: EdgeNode) => {
    const observation = observations.get(nodeUuid(node));
    const provisioning = provisioned(nodeUuid(node));
    return {
      liveness: liveness(node),
      ...(observation && { observation }),
      ...(provisioning && { provisioned: provisioning }),
    };
  };
  return lookUps({
    nodes: async () => stores.nodes.list().filter(isPresent),
    nodeBy: async (key, value) => {
      const node = key === 'name' ? lookups.nodeByName(value) : lookups.nodeByUuid(value);
      return node && isPresent(node) ? node : undefined;
    },
    applicationByName: async (name) => {
      const application = lookups.applicationByName(name);
      return application && isPresent(application) ? application : undefined;
    },
    readNodes: async (nodes) => nodes.map((node) => nodeRead(node, live(node), { platformStatus: false })),
    readApplication: async (application) =>
      applicationRead(application, {
        nodeByName: lookups.nodeByName,
        nodeByUuid: lookups.nodeByUuid,
        liveness,
        live: (node, uuid) =>
          observations.get(nodeUuid(node))?.report.microserviceStatus?.find(({ id }) => id === uuid),
        nodesReporting: (name) => stores.nodes.byIndex('reports', name),
        registryId(ref) {
          const registry = resolveRegistry(lookups.find, ref);
          return registry && registryId(registry);
        },
        applicationsOn: lookups.applicationsOn,
        catalogItem: (ref) => lookups.find('catalogItems', ref),
        now: clock(),
      }),
  });
}
