import { z } from 'zod';
import { MANIFEST_VERSION } from '../../../domain/names.ts';

/** What every route that judges a manifest of this kind answers, besides the members of the kind. */
export const validity = <const Kind extends string>(kind: Kind) => ({
  valid: true as const,
  apiVersion: MANIFEST_VERSION,
  kind,
});

export const validityReply = <const Kind extends string>(kind: Kind) =>
  z.object({ valid: z.literal(true), apiVersion: z.string(), kind: z.literal(kind) });

/** What every route answers that takes a manifest of this kind at once, besides the members of the kind. */
export const acceptedReply = <const Kind extends string>(kind: Kind) =>
  z.object({ accepted: z.literal(true), dryRun: z.boolean(), kind: z.literal(kind) });
