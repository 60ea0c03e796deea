import { API_VERSION, LABELS, UPLOAD_API_VERSIONS } from '../../../src/api/names.ts';
import type { MicroserviceEntry } from '../../../src/api/v3/index.ts';
import type { Kind } from '../../../src/kinds/definition.ts';
import { fileMembers, uploadBody } from '../../../src/kinds/upload.ts';
import type { KubeObject, Resource } from '../../../src/kube/mod.ts';
import { isEmpty } from '../../../src/rules/body-values.ts';
import { isObject, quoted, readDocument } from '../../../src/rules/document.ts';
import { objectName } from '../../../src/rules/names.ts';
import { fileWarnings } from '../../../src/rules/unknown-members.ts';
import { validateSpec } from '../../../src/rules/validate.ts';
import { CORE_KINDS } from '../../../src/subjects/content/kinds/core-objects.ts';
import {
  type ConfigMapForm,
  coreConfigMap,
  coreName,
  coreSecret,
  type SecretForm,
} from '../../../src/subjects/content/rules/core-objects/form.ts';
import { KINDS } from '../../../src/subjects/kinds.ts';
import { readMicroserviceUpload } from '../../../src/subjects/workloads/rules/entry/document.ts';
import { readApplicationUpload } from '../../../src/subjects/workloads/rules/upload/application.ts';
import { applicationFile, microserviceFile } from '../../../src/subjects/workloads/rules/upload/members.ts';
import { CommandError } from '../context/errors.ts';

/** What a document asks for: an object to apply, or an entry of an application. */
export type WantedObject =
  | {
      resource: Resource;
      object: KubeObject;
      /** in the v3 API, among the objects of its kind */
      name: string;
      rebuild: readonly string[];
    }
  | { application: string; entry: MicroserviceEntry; rebuild: readonly string[] };

type Fields = Record<string, unknown>;

const all: readonly Kind[] = [...(Object.values(KINDS) as Kind[]), ...(Object.values(CORE_KINDS) as unknown as Kind[])];

/** Kinds of documents that can be applied. */
const DOCUMENT_KINDS = [...new Set([...all.map(({ definition }) => definition.kind), 'Microservice'])].sort();

/** Reads a document in the form of the v3 files or of kubectl. Throws DomainError, or CommandError for other kinds. */
export function readWanted(document: unknown): WantedObject {
  if (!isObject(document)) throw new CommandError('must be an object with kind, metadata and spec');
  const { kind, apiVersion } = document;
  if (apiVersion === 'v1' && (kind === 'Secret' || kind === 'ConfigMap'))
    throw new CommandError(
      `${kind} of apiVersion v1 is an object of Kubernetes: use kubectl apply, with the label ${LABELS.shareable}=true`,
    );
  if (apiVersion !== undefined && !UPLOAD_API_VERSIONS.includes(String(apiVersion)))
    throw new CommandError(`apiVersion ${quoted(apiVersion)} must be ${UPLOAD_API_VERSIONS.join(' or ')}, or absent`);
  if (kind === 'Microservice') return microservice(document);
  const found = all.find(({ definition }) => definition.kind === kind);
  if (!found) throw new CommandError(`kind ${quoted(kind)} must be one of ${DOCUMENT_KINDS.join(', ')}`);
  if (kind === 'Application') return application(document);
  if (found.key === 'secrets' || found.key === 'configMaps') return coreObject(found, document);
  return ofKind(found, document);
}

/**
 * The warnings for members of a document that `readWanted` drops, as over REST. Throws for an unknown member of a document whose
 * `apiVersion` is the product's own.
 */
export function documentWarnings(document: unknown): string[] {
  if (!isObject(document)) return [];
  if (document.kind === 'Microservice') return fileWarnings(document, { spec: microserviceFile });
  if (document.kind === 'Application') return fileWarnings(document, { spec: applicationFile });
  const found = all.find(({ definition }) => definition.kind === document.kind);
  return found ? fileWarnings(document, fileMembers(found)) : [];
}

function microservice(document: Fields): WantedObject {
  const { entry, application: owner, rebuild } = readMicroserviceUpload(document);
  if (owner === undefined)
    throw new CommandError('metadata.name must be <application>/<microservice>, or spec.application must name one');
  return { application: owner, entry, rebuild: rebuild ? [entry.name] : [] };
}

function application(document: Fields): WantedObject {
  const { name, spec, rebuild } = readApplicationUpload(document);
  return { ...wanted(KINDS.applications as Kind, document, name, membersOf(spec, document.spec)), rebuild };
}

function ofKind(kind: Kind, document: Fields): WantedObject {
  const { definition, rest } = kind;
  const check = (spec: object) => validateSpec(definition.spec, spec, { path: 'spec' }) as Fields;
  if (rest.crud?.upload) {
    const body = uploadBody(kind, rest.crud.upload, document);
    const { name = nameOf(document), spec } = rest.crud.fromBody(body);
    return wanted(kind, document, name, check({ ...spec, ...askedIdentity(kind, body) }));
  }
  const { metadata, spec } = readDocument(document, definition.kind);
  const checked = check(spec);
  const name = typeof checked.name === 'string' ? checked.name : metadata.name;
  return wanted(kind, document, name, membersOf(checked, spec));
}

/** The identity to take over. REST leaves it out: there the controller gives it. */
const askedIdentity = ({ definition }: Kind, body: Fields): Fields =>
  Object.fromEntries(
    Object.keys(definition.identity.has).flatMap((member) => (isEmpty(body[member]) ? [] : [[member, body[member]]])),
  );

/** The members that a document names. A default that was filled in would become a field of this owner. */
const membersOf = (spec: object, given: unknown): Fields =>
  Object.fromEntries(Object.entries(spec).filter(([member]) => isObject(given) && Object.hasOwn(given, member)));

/** Secrets and config maps of v3 are core objects with a label. */
function coreObject(kind: Kind, document: Fields): WantedObject {
  const { crud } = kind.rest;
  if (!crud?.upload) throw new CommandError(`kind ${kind.definition.kind} has no files`);
  const { name = '', spec } = crud.fromBody(uploadBody(kind, crud.upload, document));
  const form = {
    apiVersion: 'v1',
    kind: kind.definition.kind,
    metadata: { name: coreName(name) },
    spec: { ...spec, name },
  };
  const object = kind.key === 'secrets' ? coreSecret(form as SecretForm) : coreConfigMap(form as ConfigMapForm);
  return { resource: kind.resource as Resource, object: object as KubeObject, name, rebuild: [] };
}

function wanted({ definition, resource, rest }: Kind, document: Fields, name: string, spec: object) {
  const { metadata } = document as { metadata: Fields };
  const called = objectName(name);
  const { name: ownName, ...fields } = spec as Fields;
  // The name of an object within another one is a part of its whole name.
  const v3 = rest.crud?.scope ? ownName : name;
  const texts = (member: 'labels' | 'annotations') =>
    isObject(metadata[member]) ? { [member]: metadata[member] as Record<string, string> } : {};
  const object: KubeObject = {
    apiVersion: API_VERSION,
    kind: definition.kind,
    metadata: { name: called, ...texts('labels'), ...texts('annotations') },
    spec: { ...fields, ...(called !== v3 && { name: v3 }) },
  };
  return { resource: resource as Resource, object, name, rebuild: [] as readonly string[] };
}

const nameOf = (document: Fields) => String((document.metadata as Fields).name);
