import { z } from 'zod';
import { labelName } from '../../../api/meta.ts';
import type { Artifact, ArtifactKind } from '../../../api/v3/index.ts';
import type { FindReferenced, KindObject, Reference } from '../../../kinds/object.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes, replyShape, type Write } from '../../../kinds/rest.ts';
import { isObject } from '../../../rules/document.ts';
import type { Find } from '../../../rules/inputs.ts';
import {
  ARTIFACTS,
  artifactRead,
  artifactRegistryRef,
  artifactVerdict,
  normalFormat,
} from '../rules/artifact/artifact.ts';

/** What the definitions of the kinds of artifacts have in common: everything but names. */
export function artifactParts<T extends Artifact & KindObject>(
  kind: ArtifactKind,
  definition: { kind: string; spec: z.ZodObject } & Parameters<typeof plainShapes>[0],
) {
  const { noun, code } = ARTIFACTS[kind];
  return {
    noun,
    access: 'workloads',
    inUse: { status: 409, code: `${code}_IN_USE` },
    links: { reply: 'nodes', inUse: `${code}_UNLINK_IN_USE` },
    references(artifact: T): Reference[] {
      const ref = artifactRegistryRef(artifact);
      return ref === undefined ? [] : [{ to: 'registries', ref }];
    },
    verdict: (artifact: T, find: FindReferenced) => artifactVerdict(kind, artifact, lookUp(find)),
    rest: {
      tag: definition.kind === 'Model' ? 'Models' : 'Knowledge',
      key: 'name',
      notFound: `${code}_NOT_FOUND`,
      crud: {
        path: `/${kind}`,
        list: kind,
        replies: {
          create: { status: 200, body: 'object' },
          change: { status: 200, body: 'object' },
          delete: { status: 202 },
        },
        shapes: shapesOf(definition),
        ...translation<T>(kind, definition.spec as unknown as z.ZodType<T['spec']>),
        upload: { part: noun, update: 'PUT', checksApiVersion: true },
      },
    },
  } as const;
}

/** The look-up of a kind definition, as the domain calls it. */
const lookUp = (find: FindReferenced): Find => ((to: string, ref: number | string) => find({ to, ref })) as Find;

/** A body names the registry as `registryId` or `registry`; the former is stored, and formats in one spelling. */
function translation<T extends Artifact & KindObject>(
  kind: ArtifactKind,
  schema: z.ZodType<T['spec']>,
): Pick<KindCrud<T>, 'fromBody' | 'patch' | 'read' | 'closed'> {
  const plain = plainTranslation<T>(schema, { closed: true, name: labelName() });
  const normalWrite = (write: Write<T>): Write<T> => {
    const format = normalFormat(kind, write.spec.format);
    return format === undefined ? write : { ...write, spec: { ...write.spec, format } };
  };
  return {
    closed: true,
    fromBody: (body) => normalWrite(plain.fromBody(normalBody(body))),
    patch(artifact, body) {
      const { registryId, registry, ...spec } = artifact.spec;
      const former = { ...artifact, spec: { ...spec, registryId: registryId ?? registry } };
      return normalWrite(plain.patch(former, normalBody(body)));
    },
    read: (artifact, find) => artifactRead(kind, artifact, lookUp(find)),
  };
}

function normalBody(body: unknown): unknown {
  if (!isObject(body)) return body;
  const { registry, ...fields } = body;
  const isGiven = (value: unknown) => value !== undefined && value !== null && value !== '';
  // Both at once are refused by a rule of the schema.
  return isGiven(registry) && !isGiven(fields.registryId) ? { ...fields, registryId: registry } : body;
}

function shapesOf(definition: Parameters<typeof plainShapes>[0] & { spec: z.ZodObject }) {
  const shapes = plainShapes(definition, definition.spec);
  return {
    ...shapes,
    read: replyShape(
      {
        uuid: z.string(),
        name: z.string(),
        repo: z.string(),
        revision: z.string(),
        registryId: z.number().int().optional(),
        files: z.array(z.string()),
        format: z.string().optional(),
      },
      definition.kind,
    ),
  };
}
