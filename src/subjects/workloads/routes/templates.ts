import type { ApplicationTemplate, MicroserviceEntry, MicroserviceTemplate } from '../../../api/v3/index.ts';
import { holderIn } from '../../../datastore/holder.ts';
import type { Kind } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import type { Caller } from '../../../rest/contract/access.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { forbidden, notFound } from '../../../rest/contract/errors.ts';
import type { Requester, Templated } from '../../../rest/contract/route.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { findObject } from '../../../rest/objects/lookup.ts';
import { liveNodes } from '../../../rest/objects/present.ts';
import { type Fields, isEmpty } from '../../../rules/body-values.ts';
import { isObject } from '../../../rules/document.ts';
import { DomainError } from '../../../rules/errors.ts';
import { findExpression } from '../../../rules/expressions.ts';
import { holder } from '../../../rules/precedence.ts';
import type { LookUp, Rendering } from '../../../rules/renderer.ts';
import { KINDS } from '../../kinds.ts';
import { nodeRead } from '../../nodes/rules/read.ts';
import { applicationRead } from '../rules/application/read.ts';
import { lookUps } from '../rules/templates/look-ups.ts';
import { applicationRendering, entryPart, entryRendering, overlaid } from '../rules/templates/overlay.ts';
import { readTemplateRef, type TemplateRef, unusedVariables } from '../rules/templates/variables.ts';
import { type ApplicationUpload, readApplicationBody, readApplicationUpload } from '../rules/upload/application.ts';
import { catalogItemOf, readContext } from './reads.ts';

/** The body of a request with its expressions replaced. `place` is where a file has the members of a JSON body. */
export async function renderBody(
  requester: Requester,
  body: unknown,
  templated: Templated | undefined,
  place: readonly string[] = [],
): Promise<unknown> {
  if (!templated || !isObject(body)) return body;
  const only = templated === true ? undefined : [[...place, templated.only]];
  if (!(only ?? [[]]).some((path) => findExpression(path.reduce<unknown>(member, body)))) return body;
  return render(requester, { document: body, ...(only && { only }) });
}

const member = (value: unknown, key: string) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined);

/** The application of a JSON body, with what the templates add that it names. `path` is the name in the path of an update. */
export async function applicationOfBody(requester: Requester, body: Fields, path?: string): Promise<ApplicationUpload> {
  const named = { ...body, ...(isEmpty(body.name) && path !== undefined && { name: path }) };
  const { fields, isAnyForm } = await withApplicationTemplate(requester, named, 'template');
  return withEntryTemplates(
    requester,
    readApplicationBody(fields, { path, isAnyForm, catalogItem: catalogItemOf(requester.deps) }),
    'microservices',
  );
}

/** The application of an uploaded document, with what the templates add that it names. */
export async function applicationOfFile(
  requester: Requester,
  document: unknown,
  path?: string,
): Promise<ApplicationUpload> {
  const { metadata, spec } = isObject(document) ? document : {};
  if (!isObject(spec) || isEmpty(spec.template))
    return withEntryTemplates(requester, readApplicationUpload(document, { path }), 'spec.microservices');
  const name = isEmpty(spec.name) && isObject(metadata) ? metadata.name : spec.name;
  const { fields, isAnyForm } = await withApplicationTemplate(requester, { ...spec, name }, 'spec.template');
  const upload = readApplicationUpload({ ...(document as Fields), spec: fields }, { path, isAnyForm });
  return withEntryTemplates(requester, upload, 'spec.microservices');
}

/** The fields of an application, with those of the template that they name. */
async function withApplicationTemplate(
  requester: Requester,
  fields: Fields,
  field: string,
): Promise<{ fields: Fields; isAnyForm: boolean }> {
  if (isEmpty(fields.template)) return { fields, isAnyForm: false };
  const ref = readTemplateRef(fields.template, field);
  await requireMay(requester, 'applicationtemplates', field, ref);
  const found = await named(requester, KINDS.applicationTemplates, field, ref);
  const rendering = applicationRendering(found, ref, fields, field);
  warnOfVariables(requester, found, ref, field);
  return { fields: await render(requester, rendering, { field, ref }), isAnyForm: true };
}

async function withEntryTemplates(
  requester: Requester,
  upload: ApplicationUpload,
  field: string,
): Promise<ApplicationUpload> {
  const { microservices } = upload.spec;
  if (!microservices?.some(({ template }) => !isEmpty(template))) return upload;
  const entries: MicroserviceEntry[] = [];
  for (const [index, entry] of microservices.entries())
    entries.push(await withEntryTemplate(requester, entry, upload.name, `${field}[${index}].template`));
  return { ...upload, spec: { ...upload.spec, microservices: entries } };
}

/** The entry with what the template adds that it names; the same without one. */
export async function withEntryTemplate(
  requester: Requester,
  entry: MicroserviceEntry,
  application: string,
  field = 'template',
): Promise<MicroserviceEntry> {
  if (isEmpty(entry.template)) return entry;
  const ref = readTemplateRef(entry.template, field);
  await requireMay(requester, 'microservicetemplates', field, ref);
  const found = await named(requester, KINDS.microserviceTemplates, field, ref);
  const rendering = entryRendering(found, ref, entry, application, field);
  warnOfVariables(requester, found, ref, field);
  return overlaid(entry, entryPart(await render(requester, rendering, { field, ref }), entry.name, ref, field));
}

/** The template that a request names; one that does not exist is refused with the place of its name. */
async function named<T extends KindObject>(
  { deps, signal }: Requester,
  kind: Kind<T>,
  field: string,
  { name }: TemplateRef,
): Promise<T> {
  const found = await findObject(deps, kind, name, signal);
  if (found) return found;
  throw notFound(
    kind.rest.notFound,
    `${field}.name: there is no ${kind.noun} "${name}"; create it first, or name another`,
  );
}

/** v3 ignores such variables; over kubectl they are refused. */
function warnOfVariables(
  { warnings }: Requester,
  { spec }: ApplicationTemplate | MicroserviceTemplate,
  ref: TemplateRef,
  field: string,
): void {
  const text = unusedVariables(spec, ref, field);
  if (text !== undefined) warnings?.push(text);
}

/** Reading a template is a permission of its own: what it has ends up in what the caller may read. */
async function requireMay(
  { caller }: Requester,
  resource: string,
  field: string,
  { name }: TemplateRef,
): Promise<void> {
  if (await caller.may({ resource, verb: 'get' })) return;
  if (await caller.may({ resource, verb: 'get', name })) return;
  throw forbidden(`${field}: ${caller.identity?.name ?? ''} may not get ${resource} "${name}"`);
}

async function render(
  { deps, caller, signal }: Requester,
  rendering: Rendering,
  from?: { field: string; ref: TemplateRef },
): Promise<Fields> {
  try {
    return await deps.templates.render(rendering, {
      lookUp: lookUpAs(deps, caller),
      caller: caller.identity?.name ?? '',
      signal,
    });
  } catch (error) {
    if (!from || !(error instanceof DomainError)) throw error;
    const { field, ref } = from;
    throw new DomainError(error.status, error.code, `${field}: the template "${ref.name}": ${error.message}`, {
      field,
    });
  }
}

/** The look-ups of expressions, with the rights of the caller. */
function lookUpAs(deps: RestDependencies, caller: Caller): LookUp {
  const mayList = async (resource: string) => {
    if (!(await caller.may({ resource, verb: 'list' })))
      throw new DomainError(403, 'FORBIDDEN', `${caller.identity?.name ?? ''} may not list ${resource}`);
  };
  return lookUps({
    async nodes() {
      await mayList('edgenodes');
      return deps.nodes.list().filter(isPresent);
    },
    async nodeBy(key, value) {
      await mayList('edgenodes');
      return holderIn(KINDS.nodes, deps.nodes.find(key, value).filter(isPresent), key, value);
    },
    async applicationByName(name) {
      const found = holder(deps.applications.find('name', name).filter(isPresent));
      await mayList(found?.spec.isSystem ? 'systemapplications' : 'applications');
      return found;
    },
    async readNodes(nodes, signal) {
      const live = await liveNodes(deps, nodes, signal);
      return nodes.map((node) =>
        nodeRead(node, live(node), { isBusOn: deps.lookups.bus !== undefined, platformStatus: false }),
      );
    },
    async readApplication(application, signal) {
      return applicationRead(application, await readContext(deps, [application], signal));
    },
  });
}
