import type { z } from 'zod';
import type { ResourceDefinition } from './meta.ts';
import { type Structural, toStructural, withoutNulls } from './structural.ts';

const structurals = new WeakMap<z.ZodType, Structural>();

/** The structural schema of a spec; made once. */
export function structuralOf(schema: z.ZodType): Structural {
  const known = structurals.get(schema);
  if (known) return known;
  const structural = toStructural(schema);
  structurals.set(schema, structural);
  return structural;
}

/**
 * Reads a document as the API server does under strict field validation: null members removed, defaults filled in,
 * unknown fields refused, every rule of the schema checked. The data of the result is what the API server would store.
 */
export function readSpec<K extends ResourceDefinition>(
  kind: K,
  spec: unknown,
): z.ZodSafeParseResult<z.infer<K['spec']>> {
  return kind.spec.safeParse(withoutNulls(spec, structuralOf(kind.spec))) as z.ZodSafeParseResult<z.infer<K['spec']>>;
}
