import type { VerdictReason } from '../../../api/conditions.ts';
import { API_VERSION, FIELD_MANAGERS } from '../../../api/names.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { referenced } from '../../../datastore/use.ts';
import type { KindObject } from '../../../kinds/object.ts';
import { isConflict, isInvalid, refOf } from '../../../kube/mod.ts';
import { DomainError } from '../../../rules/errors.ts';
import { nodeUuid, registryId } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import type { LookUp, Rendering } from '../../../rules/renderer.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { newlyBound } from '../../accounts/rules/service-account.ts';
import { resolveRegistry } from '../../catalog/rules/registry.ts';
import { KINDS, RESOURCES } from '../../kinds.ts';
import { nodeRead } from '../../nodes/rules/read.ts';
import { applicationRead } from '../rules/application/read.ts';
import { conflicts, entryPath, isOwnedByOthers, type ManagedFields } from '../rules/templates/field-owners.ts';
import { lookUps } from '../rules/templates/look-ups.ts';
import { applicationRendering, entryPart, entryRendering } from '../rules/templates/overlay.ts';
import { managerOf, type PendingTemplate } from '../rules/templates/pending.ts';
import { readTemplateRef, unusedVariables } from '../rules/templates/variables.ts';
import { readApplicationUpload } from '../rules/upload/application.ts';

/** Applies what templates add, server-side and without force. Expressions have the rights of a viewer. */
export function createTemplateApply(deps: ControllerDependencies) {
  const { client, stores } = deps;
  const resource = RESOURCES.applications;
  const lookUp = viewerLookUp(deps);

  const templateOf = ({ template: { name }, entry }: PendingTemplate) => {
    return entry
      ? referenced(KINDS.microserviceTemplates, stores.microserviceTemplates, name)
      : referenced(KINDS.applicationTemplates, stores.applicationTemplates, name);
  };

  /** The application with what one template adds to it; it must be fresh from the API server. */
  async function apply(
    application: Application,
    pending: PendingTemplate,
    { signal, timeMs }: { signal: AbortSignal; timeMs?: number | undefined },
  ): Promise<Application> {
    const ref = readTemplateRef(pending.template, 'template');
    const found = templateOf(pending);
    if (!found) throw new DomainError(404, 'TEMPLATE_NOT_FOUND', `there is no template "${ref.name}"`);
    const ignored = unusedVariables(found.spec, ref, 'template');
    if (ignored !== undefined) throw new DomainError(400, 'TEMPLATE_INVALID', ignored);
    const managed = managedFieldsOf(application);
    const render = (rendering: Rendering) =>
      deps.templates.render(rendering, {
        ...{ lookUp, signal, caller: `${FIELD_MANAGERS.template} ${application.metadata.uid}` },
        ...(timeMs !== undefined && { timeMs }),
      });
    const name = v3Name(application);
    let spec: { microservices?: MicroserviceEntry[] };
    if ('application' in found.spec) {
      const rendered = await render(applicationRendering(found as never, ref, { name }, 'template'));
      const document = { kind: 'Application', metadata: { name }, spec: rendered };
      const { description, busConfig, microservices } = readApplicationUpload(document, { isAnyForm: true }).spec;
      const isFree = (field: string) => !isOwnedByOthers(managed, pending.manager, ['f:spec', `f:${field}`]);
      spec = {
        ...(description !== undefined && isFree('description') && { description }),
        ...(busConfig !== undefined && isFree('busConfig') && { busConfig }),
        ...(microservices && { microservices }),
      };
    } else {
      const entry = pending.entry as MicroserviceEntry;
      const rendered = await render(entryRendering(found as never, ref, entry, name, 'template'));
      const part = entryPart(rendered, entry.name, ref, 'template');
      const both = conflicts(entry, part, managed, pending.manager);
      if (both.length > 0)
        throw new DomainError(
          409,
          'TEMPLATE_CONFLICT',
          `${both.join(', ')}: both the microservice and its template "${ref.name}" set it; leave it out of one`,
        );
      spec = { microservices: [part] };
    }
    // Also one that the entry has: as a manager of the field the template would keep it when its giver takes it back.
    const [bound] = newlyBound(spec.microservices);
    if (bound)
      throw new DomainError(
        400,
        'ROLE_NOT_BOUND',
        `microservice ${bound.entry}: serviceAccount.roleRef: the template "${ref.name}" cannot give the role "${bound.role}", which only who may bind it gives: name it in the application`,
      );
    return put(application, pending.manager, { [pending.annotation]: pending.hash }, spec, signal);
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
    const isLeftOver =
      application.spec.microservices?.some((entry) => entry.name === name) &&
      !isOwnedByOthers(managedFieldsOf(application), manager, entryPath(name));
    if (isLeftOver) return put(application, manager, {}, {}, signal);
    const { resourceVersion } = application.metadata;
    const body = { metadata: { resourceVersion, annotations: { [annotation]: null } } };
    return client.patch(
      resource,
      refOf(application),
      { type: 'merge', body },
      { signal, fieldManager: FIELD_MANAGERS.controller },
    );
  }

  return { templateOf, apply, release };
}

/** Only an object that was just read or written has them: the stores leave them out. */
const managedFieldsOf = ({ metadata }: Application) =>
  (metadata as { managedFields?: ManagedFields[] }).managedFields ?? [];

/** The reason of a failure that an edit can mend; undefined for all others. */
export function verdictOf(error: unknown): Verdict | undefined {
  const make = (reason: VerdictReason, status: Verdict['status'], code: Verdict['code'], message: string): Verdict => ({
    reason,
    status,
    code,
    field: 'template',
    message: /^template[.:]/.test(message) ? message : `template: ${message}`,
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
    readNodes: async (nodes) =>
      nodes.map((node) => nodeRead(node, live(node), { isBusOn: lookups.bus !== undefined, platformStatus: false })),
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
