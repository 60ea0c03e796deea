import type { z } from 'zod';
import type { ObjectMeta } from '../lib/kubernetes-object.ts';
import { BOUNDS } from './bounds.ts';
import type { ConditionType } from './conditions.ts';
import type { Rule } from './rules.ts';
import { atomicList, integer, mapList, object, oneOf, text } from './schema.ts';

export type { ObjectMeta };

/** The standard condition of Kubernetes (metav1.Condition). */
const conditionSchema = object({
  type: text({ min: 1, max: 316 }).describe('Type of the condition, unique in the list.'),
  status: oneOf('True', 'False', 'Unknown').describe('Whether the condition holds.'),
  observedGeneration: integer(-1, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('Generation of the spec that this condition judges.'),
  lastTransitionTime: text({ min: 1, max: 64 }).describe('When the status last changed (RFC 3339).'),
  reason: text({ min: 1, max: 1024 }).describe('Machine-readable reason, one word in CamelCase.'),
  message: text({ max: 32768 }).describe('What it means, for people.'),
});
export type Condition = z.infer<typeof conditionSchema>;

export const conditionsSchema = mapList(conditionSchema, ['type'], BOUNDS.conditions).describe(
  'Conditions; Ready, Reconciling and Stalled mean what kstatus says.',
);

/** Reference to one key of a Secret in the controller's namespace. */
export const secretKeyRefSchema = object({
  name: text({ min: 1, max: BOUNDS.name }).describe('Name of the Secret.'),
  key: text({ min: 1, max: BOUNDS.name }).describe('Key in the Secret.'),
});

export const UUID_PATTERN = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$';
export const uuidSchema = text({ min: 36, max: 36, pattern: UUID_PATTERN, expects: 'a UUID in lower case' });

/** The identity that an object should take over; see src/rules/identity.ts. */
const askedUuid = uuidSchema
  .optional()
  .describe(
    'Identity to take over, as after the loss of the store; otherwise left out. status.uuid tells the identity.',
  );

/** Members of a status that record the identity. */
const recordedUuid = text({ max: 64 }).optional().describe('Identity; whatever becomes of the manifest, it stays.');
const idSchema = integer(1, BOUNDS.id);
const askedId = idSchema
  .optional()
  .describe('Number to take over, as after the loss of the store; otherwise left out. status.id tells the number.');
const recordedId = idSchema.optional().describe('Number in the v3 API; whatever becomes of the manifest, it stays.');

const uuidRule: Rule = {
  rule: 'recorded',
  field: 'uuid',
  message: 'uuid is immutable: spec.uuid may repeat status.uuid, or be left out',
};
const idRule: Rule = {
  rule: 'recorded',
  field: 'id',
  message: 'id is immutable: spec.id may repeat status.id, or be left out',
};

/** The identity of the objects of a kind besides the name: members of spec and status, and rules about both. */
export const IDENTITIES = {
  uuid: { has: { uuid: true }, asked: { uuid: askedUuid }, recorded: { uuid: recordedUuid }, rules: [uuidRule] },
  id: { has: { id: true }, asked: { id: askedId }, recorded: { id: recordedId }, rules: [idRule] },
  uuidAndId: {
    has: { uuid: true, id: true },
    asked: { uuid: askedUuid, id: askedId },
    recorded: { uuid: recordedUuid, id: recordedId },
    rules: [uuidRule, idRule],
  },
} as const;
type IdentityDefinition = (typeof IDENTITIES)[keyof typeof IDENTITIES];

export const nameRule: Rule = { rule: 'immutable', field: 'name', message: 'name is immutable' };
export const isSystemRule: Rule = { rule: 'immutable', field: 'isSystem', message: 'isSystem is immutable' };

/** Dotted lower-case name of applications, microservices, roles and the like (docs/spec/workloads.md#names). */
export const NAME_PATTERN = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
export const dottedName = (max: number = BOUNDS.name) =>
  text({ min: 1, max, pattern: NAME_PATTERN, expects: 'a name of lower-case letters, digits, "-" and "."' });

/** Name of a kind whose names are labels (RFC 1123); its objects have no name besides `metadata.name`. */
export const labelName = () =>
  text({
    min: 1,
    max: 63,
    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
    expects: 'a name of at most 63 lower-case letters, digits and "-"',
  });

/** The nodes that an object of a linkable kind is linked to. */
export const nodesSchema = atomicList(text({ min: 1, max: BOUNDS.anyName }), BOUNDS.linkedNodes)
  .optional()
  .describe('Nodes that it is linked to, by name or uuid. What runs on a node gets what it uses without a link.');

/** The status member that all kinds share. */
export const observedGenerationSchema = integer(-1, Number.MAX_SAFE_INTEGER)
  .default(-1)
  .describe('Generation of the spec that this status is about; -1 before the first look.');

/** A custom resource of any kind of ours. */
export interface CustomResource<Spec, Status> {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: Spec;
  status?: Status;
}

/** The definition of a kind: the source of its CRD, its types, its validation and its documentation. */
export interface ResourceDefinition<Spec extends z.ZodType = z.ZodType, Status extends z.ZodType = z.ZodType> {
  kind: string;
  plural: string;
  singular: string;
  shortNames: readonly string[];
  description: string;
  spec: Spec;
  status: Status;
  identity: IdentityDefinition;
  /** names are labels (RFC 1123) */
  hasLabelNames?: true;
  /** a name that no object of the kind has, and why */
  reservedName?: { readonly name: string; readonly message: string };
  /** types of its conditions, in the order in which they are written */
  conditions: readonly ConditionType[];
  /** field paths under which kubectl and the API can select objects */
  selectableFields: readonly string[];
  printerColumns: readonly PrinterColumn[];
}

export interface PrinterColumn {
  name: string;
  type: 'string' | 'integer' | 'date' | 'boolean';
  jsonPath: string;
  description?: string;
  /** 1 = only in the wide output */
  priority?: number;
}

/** Members of the status of every object of ours: see kstatus. */
export const BASIC_CONDITIONS: readonly ConditionType[] = ['Ready', 'Reconciling', 'Stalled'];

export const AGE_COLUMN: PrinterColumn = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };
export const READY_COLUMN: PrinterColumn = {
  name: 'Ready',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].status',
  description: 'Whether everything asked for is so.',
};
