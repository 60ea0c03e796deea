import type { z } from 'zod';
import type { ResourceDefinition } from './meta.ts';
import { structuralOf } from './normal-form.ts';
import { withoutNulls } from './structural.ts';

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
