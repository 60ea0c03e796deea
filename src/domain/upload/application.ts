import type { ApplicationSpec } from '../../api/v3/index.ts';

/** What an uploaded or posted application asks for. */
export interface ApplicationUpload {
  name: string;
  spec: ApplicationSpec;
  /** entry names whose body orders a rebuild */
  rebuild: readonly string[];
  /** whether the document had the member `microservices` at all (PUT semantics) */
  hasMicroservices: boolean;
  /** whether isActivated was said, and not filled in */
  hasIsActivated: boolean;
}

/** An uploaded Application document (already parsed YAML). `path` is the name in the path of an update. */
export function readApplicationUpload(_document: unknown, _options?: { path?: string }): ApplicationUpload {
  throw new Error('not written yet');
}

/** A JSON body of `POST /application` and `PUT /application/{name}`: microservices in the flat form. */
export function readApplicationBody(_body: unknown, _options?: { path?: string }): ApplicationUpload {
  throw new Error('not written yet');
}

/** A JSON body of `PATCH /application/{name}`: metadata only. Returns the changed spec. */
export function patchApplication(_spec: ApplicationSpec, _body: unknown, _path: string): ApplicationSpec {
  throw new Error('not written yet');
}
