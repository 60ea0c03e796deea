import type { z } from 'zod';
import { withRules } from '../rules.ts';
import { object } from '../schema.ts';
import { CONTAINER_FIELD_NAMES, type CONTAINER_FIELDS, type ContainerField, fieldRow } from './fields.ts';
import { CONTAINER_RULES } from './rules.ts';

/** The schemas made from the table of container fields: that of entries, and the members that an agent gets. */

type Rows = typeof CONTAINER_FIELDS;
type Flat<T> = { [K in keyof T]: T[K] };

/** The second spelling of a field, if it has one. */
export type AliasOf<F extends ContainerField> = Rows[F] extends { alias: { name: infer N extends string } } ? N : never;
/** The name of a field in what an agent gets. */
type WireName<F extends ContainerField> = Rows[F] extends { wireName: infer N extends string } ? N : F;
/** The schema of a field as an agent gets it. */
export type WireValue<F extends ContainerField> = z.infer<Rows[F]['wire']>;

type EntryShape = Flat<
  { [F in ContainerField]: z.ZodOptional<Rows[F]['schema']> } & {
    [F in ContainerField as AliasOf<F>]: z.ZodOptional<Rows[F]['schema']>;
  }
>;
type HasDefault<F extends ContainerField> = Rows[F] extends { default: infer D }
  ? [D] extends [undefined]
    ? false
    : true
  : false;
type WireShape = {
  [F in ContainerField as WireName<F> | AliasOf<F>]: HasDefault<F> extends true
    ? z.ZodDefault<Rows[F]['wire']>
    : z.ZodOptional<Rows[F]['wire']>;
};

const entryShape = Object.fromEntries(
  CONTAINER_FIELD_NAMES.flatMap((field) => {
    const { schema, description, alias } = fieldRow(field);
    const optional = schema.optional();
    return [
      [field, optional.describe(description)],
      ...(alias ? [[alias.name, optional.describe(alias.description)]] : []),
    ];
  }),
) as EntryShape;

/** The container part of a microservice entry, older spellings included. */
export const containerSchema = withRules(object(entryShape), CONTAINER_RULES);
export type EntryContainer = z.infer<typeof containerSchema>;

/** The members of a microservice's view that are container fields. */
export const containerViewShape = Object.fromEntries(
  CONTAINER_FIELD_NAMES.flatMap((field) => {
    const { wire, wireName, alias, default: absent } = fieldRow(field);
    const member = absent === undefined ? wire.optional() : wire.default(absent);
    return [wireName, ...(alias ? [alias.name] : [])].map((name) => [name, member]);
  }),
) as WireShape;
