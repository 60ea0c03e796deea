import { z } from 'zod';

/** The parts of a form with a manifest. */
export const manifestBody = () =>
  z.object({
    manifest: z.string(),
    sourceName: z.string().optional(),
    dryRun: z.boolean().default(false),
    async: z.boolean().default(false),
  });
