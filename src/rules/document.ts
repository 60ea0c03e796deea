import { invalid } from './errors.ts';

/** A parsed YAML document of an upload whose outer form was checked. */
export interface UploadDocument {
  kind: string;
  metadata: Record<string, unknown> & { name: string };
  spec: Record<string, unknown>;
}

/**
 * Checks the outer form of an uploaded document: kind, metadata.name and spec. It accepts the form of the v3 files and that of
 * kubectl; they differ inside spec only. `apiVersion` is checked only for kinds that have their own
 * (docs/spec/workloads.md#uploads). Members of `topLevel` may stand at the top instead of in the spec. Throws DomainError.
 */
export function readDocument(
  document: unknown,
  kind: string,
  {
    apiVersions,
    topLevel = [],
    isClosed = false,
  }: { apiVersions?: readonly string[]; topLevel?: readonly string[]; isClosed?: boolean } = {},
): UploadDocument {
  if (!isObject(document)) throw invalid(`the file must hold one YAML object of kind ${kind}`);
  const { apiVersion, metadata, spec } = document;
  if (document.kind !== kind) throw invalid(`kind: ${quoted(document.kind)}; must be ${kind}`, 'kind');
  if (apiVersion !== undefined && apiVersions && !apiVersions.includes(String(apiVersion)))
    throw invalid(`apiVersion: ${quoted(apiVersion)}; must be ${apiVersions.join(' or ')}`, 'apiVersion');
  if (!isObject(metadata)) throw invalid('metadata: is required', 'metadata');
  if (typeof metadata.name !== 'string' || metadata.name === '')
    throw invalid('metadata.name: is required', 'metadata.name');
  const atTop = topLevel.filter((member) => document[member] !== undefined);
  if (!isObject(spec) && !(spec === undefined && atTop.length > 0))
    throw invalid(spec === undefined || spec === null ? 'spec: is required' : 'spec: must be an object', 'spec');
  const unknown = Object.keys(document).find((member) => !MEMBERS.includes(member) && !topLevel.includes(member));
  if (isClosed && unknown !== undefined) throw invalid(`unknown field ${quoted(unknown)}`, unknown);
  const twice = atTop.find((member) => spec?.[member] !== undefined);
  if (twice) throw invalid(`${twice}: is given at the top and in spec; give it once`, twice);
  const members = Object.fromEntries(atTop.map((member) => [member, document[member]]));
  return { kind, metadata: { ...metadata, name: metadata.name }, spec: { ...spec, ...members } };
}

/** Members of every document. A status is what was observed, and is not read. */
const MEMBERS = ['apiVersion', 'kind', 'metadata', 'spec', 'status'];

/** Refuses a document whose name is not the one in the path. */
export function requireName(name: string, path: string | undefined, field: string): void {
  if (path !== undefined && name !== path)
    throw invalid(`${field}: ${quoted(name)}; must equal the name in the path, ${quoted(path)}`, field);
}

/** Refuses another value of a member that never changes; a body may repeat it, or leave it unset. */
export function requireUnchanged(field: string, given: unknown, stored: string | number | undefined): void {
  if (given === undefined || given === null || given === '' || stored === undefined) return;
  if (String(given) !== String(stored))
    throw invalid(`${field}: ${quoted(given)}; is immutable and is ${quoted(stored)}`, field);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Characters of a value in a message. */
const SHOWN = 100;

/** A value in a message: the beginning of texts and numbers, and only the type of objects. A text is cut before it is looked at. */
export function quoted(value: unknown): string {
  if (value === undefined) return 'absent';
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : value === null ? 'null' : 'an object';
  const text = JSON.stringify(typeof value === 'string' ? value.slice(0, SHOWN) : value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}
