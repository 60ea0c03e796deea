import { z } from 'zod';

/** What is known of one container field. `fields.ts` has a row for each; everything else about a field is made from it. */
export type FieldRow = {
  /** as an entry has it (`container.<name>`), without `optional` */
  schema: z.ZodType;
  /** what `kubectl explain` and the OpenAPI document say of it */
  description: string;
  /** as an agent gets it */
  wire: z.ZodType;
  /** what an agent gets when the entry does not have the field; without one, the agent does not get the field either */
  default?: unknown;
  /** what a REST read shows when the entry does not have the field, where that is not `default` */
  shown?: unknown;
  /** its name in the flat JSON form of REST, where that is another one */
  flatName?: string;
  /** its name in what an agent gets, where that is another one; the flat form accepts it too */
  wireName?: string;
  /** a second spelling, which entries, the flat form and the agents' view all have */
  alias?: { readonly name: string; readonly description: string };
  /** what absent members of its items mean */
  itemDefaults?: Readonly<Record<string, string>>;
  /** what a number counts; engines count bytes and billionths of a core */
  unit?: 'MiB' | 'cores';
  engine: Engine;
  /** a value other than the default, which tests send through every form */
  example: unknown;
} & Fingerprinted;

/**
 * How a field takes part in the revision and in the container digest: `value` as it is (the order of a list counts), `set`
 * as a list whose order does not count, `own` in a form of its own. What is empty or the default takes no part, so that a
 * new field changes neither.
 *
 * `secret`: it may hold what came from a Secret. Then revisions, which stand in statuses, have it keyed only.
 */
type Fingerprinted = { part: 'value' | 'set' | 'own'; secret: false } | { part: 'own'; secret: true };

/**
 * The member of the Docker API's create call that takes the value as it is, in the API's unit: with a capital letter, those
 * of its HostConfig as `HostConfig.<member>`. `own`: create-body.ts translates it.
 */
export type Engine = 'own' | Capitalize<string>;

/** A switch, off unless it is on. */
export const flag = <const E extends Engine>(engine: E, description: string) =>
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
export const words = <const E extends Engine, S extends z.ZodType>(engine: E, schema: S, description: string) =>
  ({ schema, wire: z.string(), default: '', part: 'value', secret: false, engine, description }) as const;

/** A number that is absent unless it is given. */
export const amount = <const E extends Engine, S extends z.ZodType, W extends z.ZodType>(
  engine: E,
  schema: S,
  wire: W,
  description: string,
) => ({ schema, wire, part: 'value', secret: false, engine, description }) as const;

/** A list of texts. The row says in `part` whether their order counts. */
export const list = <const E extends Engine, S extends z.ZodType>(engine: E, schema: S, description: string) =>
  ({ schema, wire: z.array(z.string()), default: [], secret: false, engine, description }) as const;
