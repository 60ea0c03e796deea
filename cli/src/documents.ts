import { API_VERSION, LABELS, UPLOAD_API_VERSIONS } from '../../src/api/names.ts';
import type { MicroserviceEntry } from '../../src/api/v3/index.ts';
import {
  type ConfigMapForm,
  coreConfigMap,
  coreName,
  coreSecret,
  type SecretForm,
} from '../../src/domain/core-objects/form.ts';
import { objectName } from '../../src/domain/names.ts';
import { isObject, quoted, readDocument } from '../../src/domain/upload/document.ts';
import { readApplicationUpload, readMicroserviceUpload, validateSpec } from '../../src/domain/upload/index.ts';
import { CORE_KINDS } from '../../src/kinds/core-objects.ts';
import { KINDS, type Kind } from '../../src/kinds/index.ts';
import { uploadBody } from '../../src/kinds/upload.ts';
import type { KubeObject, Resource } from '../../src/kube/mod.ts';
import { CommandError } from './command.ts';

/** What a document asks for: an object to apply, or an entry of an application. */
export type Wanted =
  | { resource: Resource; object: KubeObject; rebuild: readonly string[] }
  | { application: string; entry: MicroserviceEntry; rebuild: readonly string[] };

type Fields = Record<string, unknown>;

const all: readonly Kind[] = [...(Object.values(KINDS) as Kind[]), ...(Object.values(CORE_KINDS) as unknown as Kind[])];

/** Kinds of documents that can be applied. */
const DOCUMENT_KINDS = [...new Set([...all.map(({ definition }) => definition.kind), 'Microservice'])].sort();

/** Reads a document in the form of the v3 files or of kubectl. Throws DomainError, or CommandError for other kinds. */
export function readWanted(document: unknown): Wanted {
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

function microservice(document: Fields): Wanted {
  const { entry, application: owner, rebuild } = readMicroserviceUpload(document);
  if (owner === undefined)
    throw new CommandError('metadata.name must be <application>/<microservice>, or spec.application must name one');
  return { application: owner, entry, rebuild: rebuild ? [entry.name] : [] };
}

function application(document: Fields): Wanted {
  const { name, spec, rebuild } = readApplicationUpload(document);
  return { ...wanted(KINDS.applications as Kind, document, name, spec), rebuild };
}

function ofKind(kind: Kind, document: Fields): Wanted {
  const { crud } = kind.rest;
  if (crud?.upload) {
    const write = crud.fromBody(uploadBody(kind, crud.upload, document));
    return wanted(kind, document, write.name ?? nameOf(document), write.spec);
  }
  const { metadata, spec } = readDocument(document, kind.definition.kind);
  const checked = validateSpec(kind.definition.spec, spec, { path: 'spec' }) as Fields;
  return wanted(kind, document, typeof checked.name === 'string' ? checked.name : metadata.name, checked);
}

/** Secrets and config maps of v3 are core objects with a label. */
function coreObject(kind: Kind, document: Fields): Wanted {
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
  return { resource: kind.resource as Resource, object: object as KubeObject, rebuild: [] };
}

function wanted({ definition, resource }: Kind, document: Fields, name: string, spec: object) {
  const { metadata } = document as { metadata: Fields };
  const called = objectName(name);
  const { name: _name, ...rest } = spec as Fields;
  const texts = (member: 'labels' | 'annotations') =>
    isObject(metadata[member]) ? { [member]: metadata[member] as Record<string, string> } : {};
  const object: KubeObject = {
    apiVersion: API_VERSION,
    kind: definition.kind,
    metadata: { name: called, ...texts('labels'), ...texts('annotations') },
    spec: { ...rest, ...(called !== name && { name }) },
  };
  return { resource: resource as Resource, object, rebuild: [] as readonly string[] };
}

const nameOf = (document: Fields) => String((document.metadata as Fields).name);
