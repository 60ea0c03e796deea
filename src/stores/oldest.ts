/** Of several objects that claim one name or uuid, the oldest has it. */
export function oldest<T extends { metadata: { creationTimestamp?: string; uid?: string } }>(
  objects: readonly T[],
): T | undefined {
  let first: T | undefined;
  for (const object of objects) if (!first || isOlder(object, first)) first = object;
  return first;
}

export function isOlder<T extends { metadata: { creationTimestamp?: string; uid?: string } }>(a: T, b: T): boolean {
  const [at, bt] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  return at === bt ? (a.metadata.uid ?? '') < (b.metadata.uid ?? '') : at < bt;
}
