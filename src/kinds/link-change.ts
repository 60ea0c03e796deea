import { isDeepStrictEqual } from 'node:util';
import type { KindObject } from './object.ts';

/** Whether an object differs from its former state in its links alone: that concerns the nodes that it gains or loses. */
export const isOnlyRelinked = (object: KindObject, previous: KindObject): boolean =>
  object.metadata.uid === previous.metadata.uid &&
  object.metadata.deletionTimestamp === previous.metadata.deletionTimestamp &&
  object.spec.nodes !== previous.spec.nodes &&
  isDeepStrictEqual({ ...object.spec, nodes: undefined }, { ...previous.spec, nodes: undefined }) &&
  isDeepStrictEqual(identityOf(object), identityOf(previous));

/** Names and uuids of the nodes that one of two states is linked to and the other is not. */
export function relinkedNodes(object: KindObject, previous: KindObject): ReadonlySet<string> {
  const [now, before] = [new Set(object.spec.nodes), new Set(previous.spec.nodes)];
  return new Set([...now, ...before].filter((node) => now.has(node) !== before.has(node)));
}

const identityOf = ({ metadata, status }: KindObject) => [
  metadata.labels,
  metadata.annotations,
  status?.uuid,
  status?.id,
];
