import { UPLOAD_API_VERSIONS } from '../api/names.ts';
import { readDocument } from '../rules/document.ts';
import { invalid } from '../rules/errors.ts';
import type { FileMembers } from '../rules/unknown-members.ts';
import type { Kind } from './definition.ts';
import type { KindObject } from './object.ts';
import type { KindUpload } from './rest.ts';

/** The JSON body that is equivalent to a document of a kind. Throws DomainError. */
export function uploadBody<T extends KindObject>(
  { definition, rest }: Kind<T>,
  { body, checksApiVersion, topLevel }: KindUpload,
  document: unknown,
): Record<string, unknown> {
  if (body) return body(document);
  const options = { ...(checksApiVersion && { apiVersions: UPLOAD_API_VERSIONS }), ...(topLevel && { topLevel }) };
  const { metadata, spec } = readDocument(document, definition.kind, {
    ...options,
    isClosed: rest.crud?.closed === true,
  });
  const isNamed = spec.name !== undefined && spec.name !== null && spec.name !== '';
  // A kind whose names are labels has no name in its spec; a name that is no text is refused by the schema.
  if (isNamed && definition.hasLabelNames) throw invalid('spec: unknown field "name"', 'spec');
  const name = isNamed ? spec.name : metadata.name;
  const scope = rest.crud?.scope;
  return { ...spec, ...(scope && { [scope.field]: spec[scope.field] ?? metadata[scope.field] }), name };
}

/** What tells the members of a file of a kind. */
export function fileMembers<T extends KindObject>({ definition, rest: { crud } }: Kind<T>): FileMembers {
  // A closed kind refuses unknown members itself.
  const isOpen = crud?.upload && !crud.upload.body && !crud.closed;
  return isOpen ? { spec: definition.spec } : { ...(crud && { members: crud.shapes.create }) };
}
