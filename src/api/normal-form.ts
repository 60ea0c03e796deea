import type { z } from 'zod';
import { type Structural, toStructural } from './structural.ts';

const structurals = new WeakMap<z.ZodType, Structural>();

/** The structural schema of a spec; made once. */
export function structuralOf(schema: z.ZodType): Structural {
  const known = structurals.get(schema);
  if (known) return known;
  const structural = toStructural(schema);
  structurals.set(schema, structural);
  return structural;
}
