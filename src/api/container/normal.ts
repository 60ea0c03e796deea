import { CONTAINER_FIELD_NAMES, type CONTAINER_FIELDS, type ContainerField, fieldRow, isAbsent } from './fields.ts';
import type { EntryContainer } from './schema.ts';

type Value<F extends ContainerField> = NonNullable<EntryContainer[F]>;
type Item<F extends ContainerField> = Value<F> extends (infer I)[] ? I : never;
type ItemDefault<F extends ContainerField> = (typeof CONTAINER_FIELDS)[F] extends { itemDefaults: infer D } ? D : never;
type NormalItem<F extends ContainerField> = Item<F> & Required<Pick<Item<F>, keyof ItemDefault<F> & keyof Item<F>>>;

/** The value of a container field: absent members of items have their defaults, kernel parameters are text. */
export type NormalValue<F extends ContainerField> = F extends 'sysctls'
  ? Record<string, string>
  : [ItemDefault<F>] extends [never]
    ? Value<F>
    : NormalItem<F>[];

/** Container settings with one spelling per field; empty values and defaults are absent. */
export type NormalContainer = { [F in ContainerField]?: NormalValue<F> };

/** An item of a field with defaults for its absent members. */
export function normalItem<F extends ContainerField>(field: F, item: Item<F>): NormalItem<F> {
  const normal = { ...(item as Record<string, unknown>) };
  for (const [member, value] of Object.entries(fieldRow(field).itemDefaults ?? {})) normal[member] ??= value;
  return normal as NormalItem<F>;
}

/** The normal form of items and values that differ from how they are written. */
const NORMAL: { readonly [F in ContainerField]?: (value: Value<F>) => NormalValue<F> | undefined } = {
  sysctls: (map) => Object.fromEntries(Object.entries(map).map(([key, value]) => [key, String(value)])),
  healthCheck: (check) => (check.test?.length ? check : undefined),
};

/** The normal form of the container part of an entry. */
export function normalContainer(container: EntryContainer): NormalContainer {
  const normal: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(container)) {
    const field = SPELLINGS.get(key);
    if (!field || isAbsent(field, value) || (key !== field && container[field] !== undefined)) continue;
    const { itemDefaults } = fieldRow(field);
    const change = NORMAL[field] as ((value: unknown) => unknown) | undefined;
    const items = value as never[];
    const changed = itemDefaults ? items.map((item) => normalItem(field, item)) : change ? change(value) : value;
    if (changed !== undefined) normal[field] = changed;
  }
  return normal as NormalContainer;
}

/** The fields by each of their spellings. */
const SPELLINGS: ReadonlyMap<string, ContainerField> = new Map(
  CONTAINER_FIELD_NAMES.flatMap((field) => {
    const { alias } = fieldRow(field);
    return [[field, field] as const, ...(alias ? [[alias.name, field] as const] : [])];
  }),
);
