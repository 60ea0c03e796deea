/**
 * Objects that exist from the start, and that only the controller changes. Their numbers belong to them even when another
 * object asks for one first.
 */
export interface BuiltIn<Spec = { id?: number }> {
  /** name of the object */
  name: string;
  spec: Spec;
}

/** Whether a number is reserved for another object. */
export const isReservedFor = (
  builtIns: readonly BuiltIn[],
  { metadata: { name } }: { metadata: { name: string } },
  id: number,
): boolean => builtIns.some((builtIn) => builtIn.spec.id === id && builtIn.name !== name);

/** Whether an object is one of those that exist from the start. */
export const isOneOf = (
  builtIns: readonly BuiltIn[],
  { metadata: { name } }: { metadata: { name: string } },
): boolean => builtIns.some((builtIn) => builtIn.name === name);
