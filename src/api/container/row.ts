import { z } from 'zod';

/** The definition of one container field. `fields.ts` has a row for each; everything else about a field is made from it. */
export type FieldRow = {
  /** schema of the field in an entry (`container.<name>`), without `optional` */
  schema: z.ZodType;
  /** documentation for `kubectl explain` and the OpenAPI document */
  description: string;
  /** schema of the field as an agent gets it */
  wire: z.ZodType;
  /** value for an agent when the entry does not have the field; without a default, the agent does not get the field */
  default?: unknown;
  /** value in a REST read when the entry does not have the field, if that is not `default` */
  shown?: unknown;
  /** name in the flat JSON form of REST, if it differs */
  flatName?: string;
  /** name in what an agent gets, if it differs; the flat form accepts it too */
  wireName?: string;
  /** a second spelling, which entries, the flat form and the view of agents have */
  alias?: { readonly name: string; readonly description: string };
  /** defaults of absent members of its items */
  itemDefaults?: Readonly<Record<string, string>>;
  /** unit of a number; engines count bytes and billionths of a core */
  unit?: 'MiB' | 'cores';
  engine: EngineMember;
  /** a value other than the default, which tests convert between all forms */
  example: unknown;
} & Fingerprinted;

/**
 * How a field takes part in the revision and in the container digest: `value` unchanged (the order of a list counts), `set`
 * as a list whose order does not count, `own` in a form of its own. What is empty or the default takes no part, so that a
 * new field changes neither.
 *
 * `secret`: the field may contain values of Secrets. Revisions, which statuses contain, then have it only as a keyed hash.
 */
type Fingerprinted = { part: 'value' | 'set' | 'own'; secret: false } | { part: 'own'; secret: true };

/**
 * The member of the create call of the Docker API, capitalized, that takes the value unchanged in the unit of that API; those
 * of its HostConfig as `HostConfig.<member>`. `own`: create-body.ts translates it.
 */
export type EngineMember = 'own' | Capitalize<string>;

/** A boolean; absent means false. */
export const flag = <const E extends EngineMember>(engine: E, description: string) =>
  ({
    schema: z.boolean(),
    wire: z.boolean(),
    default: false,
    part: 'value',
    secret: false,
    engine,
    description,
    example: true,
  }) as const;

/** Text; empty is absent. */
export const words = <const E extends EngineMember, S extends z.ZodType>(engine: E, schema: S, description: string) =>
  ({ schema, wire: z.string(), default: '', part: 'value', secret: false, engine, description }) as const;

/** A number without a default. */
export const amount = <const E extends EngineMember, S extends z.ZodType, W extends z.ZodType>(
  engine: E,
  schema: S,
  wire: W,
  description: string,
) => ({ schema, wire, part: 'value', secret: false, engine, description }) as const;

/** A list of texts. The row says in `part` whether their order counts. */
export const list = <const E extends EngineMember, S extends z.ZodType>(engine: E, schema: S, description: string) =>
  ({ schema, wire: z.array(z.string()), default: [], secret: false, engine, description }) as const;
