import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { type Claimed, holder } from '../rules/precedence.ts';
import { coreName } from '../subjects/content/rules/core-objects/form.ts';

/** Of several objects of a kind with one name, uuid or number, the one that has it. */
export function holderIn<T extends KindObject>(
  { key, builtIns, recordsName }: Pick<Kind<T>, 'key' | 'builtIns' | 'recordsName'>,
  objects: readonly T[],
  by: 'name' | 'uuid' | 'id',
  value: string | number,
): T | undefined {
  const claimed: Claimed<T> = {
    builtIns,
    ...(by === 'uuid' && { uuid: String(value) }),
    ...(by === 'id' && { id: Number(value) }),
    ...(by === 'name' && isCore(key) && { has: isCalled(String(value)) }),
    ...(by === 'name' && recordsName && { has: recordsTheName(value) }),
  };
  return holder(objects, claimed);
}

const recordsTheName =
  <T extends KindObject>(name: string | number) =>
  ({ status }: T): number =>
    Number((status as { name?: string } | undefined)?.name === name);

const isCore = (key: string) => key === 'secrets' || key === 'configMaps';

/**
 * The v3 name of a core object is an annotation that can be edited, so that its age says nothing of how long it has had the
 * name. The one whose own name stands for the v3 name has it: that name nothing else can get.
 */
export const isCalled =
  <T extends { metadata: { name: string } }>(name: string) =>
  ({ metadata }: T): number =>
    Number(metadata.name === coreName(name));
