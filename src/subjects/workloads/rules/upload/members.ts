import { z } from 'zod';
import { applicationSpecSchema, microserviceSchema } from '../../../../api/v3/index.ts';

/** The spec of a file with a microservice. */
export const microserviceFile = z.object({
  ...microserviceSchema.shape,
  application: z.string().optional(),
  rebuild: z.boolean().optional(),
});

/** The spec of a file with an application. */
export const applicationFile = z.object({ ...applicationSpecSchema.shape, microservices: z.array(microserviceFile) });
