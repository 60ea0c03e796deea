import { UPLOAD_API_VERSIONS } from '../api/names.ts';
import { readDocument } from '../domain/upload/document.ts';
import type { Kind, KindObject } from './definition.ts';
import type { KindUpload } from './rest.ts';

/** The JSON body that is equivalent to a document of a kind. Throws DomainError. */
export function uploadBody<T extends KindObject>(
  { definition, rest }: Kind<T>,
  { body, checksApiVersion, topLevel }: KindUpload,
  document: unknown,
): Record<string, unknown> {
  if (body) return body(document);
  const options = { ...(checksApiVersion && { apiVersions: UPLOAD_API_VERSIONS }), ...(topLevel && { topLevel }) };
  const { metadata, spec } = readDocument(document, definition.kind, options);
  const name = typeof spec.name === 'string' && spec.name !== '' ? spec.name : metadata.name;
  const scope = rest.crud?.scope;
  return { ...spec, ...(scope && { [scope.field]: spec[scope.field] ?? metadata[scope.field] }), name };
}
