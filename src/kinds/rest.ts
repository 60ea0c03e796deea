import { z } from 'zod';
import type { RestErrorCode } from '../api/error-codes.ts';
import type { ResourceDefinition } from '../api/meta.ts';
import type { DomainError } from '../rules/errors.ts';
import type { FindReferenced } from './object.ts';

type Json = Record<string, unknown>;

/** How the objects of a kind are found and served over REST. */
export interface KindRest<T, W extends Write<T> = Write<T>> {
  /** Group of the operations in the OpenAPI document. */
  tag: string;
  /** parameter of the path of one object */
  key: 'uuid' | 'name' | 'id';
  /** code of the 404 */
  notFound: RestErrorCode<404>;
  /** absent for kinds whose routes are written by hand */
  crud?: KindCrud<T, W>;
}

/** A body as read; translations may add members, which the hooks of the routes of the kind carry out. */
export interface Write<T> {
  name?: string;
  spec: T extends { spec: infer S } ? S : never;
}

/** The plain operations of a kind: create, list, read, change and delete, and the same from a file. */
export interface KindCrud<T, W extends Write<T> = Write<T>> {
  /** of the collection: `/registries` */
  path: string;
  /** of the list, where it differs from the path of the items */
  listPath?: string;
  /** the member of a list reply: `registries` */
  list: string;
  /** the objects in the id and summary of the list operation, where `list` means several kinds: `busUserRules` */
  listed?: string;
  /**
   * The objects are named within another one: the path of one object begins with its name, a member of the spec has it, and
   * lists may be limited to it.
   */
  scope?: { param: string; field: string };
  /** a list reply is the array itself */
  isBareList?: true;
  /** replies have the number as text */
  idIsText?: true;
  /** Success statuses and bodies: the object, its key, or nothing. */
  replies: {
    create: { status: 200 | 201; body: 'object' | 'key' | 'idAndName' };
    change: { status: 200; body: 'object' } | { status: 204 };
    /** of PUT, where it differs from a change */
    replace?: { status: 200; body: 'idAndName' };
    delete: { status: 200 | 202 | 204 };
  };
  shapes: KindShapes;
  /** Resource of the permission to read one object, when a read shows what is a permission of its own. */
  readPermission?: string;
  /** Whether texts of bodies are expressions: all when absent; false: texts are stored as they are; or those of one member. */
  templated?: false | { only: string };
  /** Texts of the OpenAPI document where the usual ones do not fit. */
  texts?: Partial<Record<Operation, { summary?: string; description?: string }>>;
  /** Unknown members of a body or file are refused; other kinds drop them (docs/spec/rest-v3.md#unknown-members). */
  closed?: true;
  /** Reads a create body. Throws DomainError. */
  fromBody: { of(body: unknown): W }['of'];
  /** Reads a PATCH body: absent members stay, null removes. Throws DomainError. */
  patch: { of(object: T, body: unknown): W }['of'];
  /** `find` is for what the object names: a read may show more of it than the name. */
  read: { of(object: T, find: FindReferenced): Json }['of'];
  /** Why an object is never deleted. */
  undeletable?: { of(object: T): DomainError | undefined }['of'];
  /** the YAML routes */
  upload?: KindUpload;
  /** a new object may name what does not exist, which the routes find and its references do not show: 404 */
  namesOthers?: true;
  /** PUT with a JSON body creates or replaces an object */
  hasPut?: true;
}
export type Operation = 'create' | 'list' | 'get' | 'change' | 'delete';

/** The documentation of bodies in the OpenAPI document. */
export interface KindShapes {
  create: z.ZodType;
  change: z.ZodType;
  read: z.ZodType<Json, Json>;
  /** one item of a list, where it differs */
  listed?: z.ZodType<Json, Json>;
}

export interface KindUpload {
  /** name of the file part in a multipart form */
  part: string;
  /** PUT replaces what the document does not name, PATCH keeps it unless `replaces` */
  update: 'PUT' | 'PATCH';
  replaces?: true;
  /** the JSON body that is equivalent to a document, where that is more than name and spec; throws DomainError */
  body?: (document: unknown) => Json;
  /** refuses documents of another API */
  checksApiVersion?: true;
  /** members of the spec that a document may have at its top instead */
  topLevel?: readonly string[];
}

/** A reply of which some members are documented and others may follow. `id` is its name in the OpenAPI document. */
export function replyShape(shape: z.ZodRawShape, id?: string): z.ZodType<Json, Json> {
  const schema = z.looseObject(shape) as unknown as z.ZodType<Json, Json>;
  return id ? schema.meta({ id }) : schema;
}

/** Bodies and replies of a kind whose JSON has the members of its spec. */
export function plainShapes(
  { kind, identity }: Pick<ResourceDefinition, 'kind' | 'identity'>,
  spec: z.ZodObject,
  { idIsText = false }: { idIsText?: boolean } = {},
): KindShapes {
  const { id, uuid, ...fields } = z.object(spec.shape).shape as Record<string, z.ZodType>;
  const change = z.object(fields).partial();
  return {
    create: z.object({ ...fields, name: z.string() }).meta({ id: `New${kind}` }),
    change: change.meta({ id: `${kind}Changes` }),
    read: replyShape(
      {
        ...('uuid' in identity.has && { uuid: z.string() }),
        ...('id' in identity.has && { id: (idIsText ? z.string() : z.number().int()).optional() }),
        ...change.shape,
        name: z.string(),
      },
      kind,
    ),
  };
}
