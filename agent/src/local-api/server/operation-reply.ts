import { z } from 'zod';

/** The reply about an operation: what every operation has, and the members of its kind (docs/spec/agent-local-api.md#operations). */
export const operationReply = <const T extends z.ZodRawShape>(members: T) =>
  z.object({
    operationId: z.string(),
    status: z.enum(['running', 'succeeded', 'failed']),
    startedAt: z.string(),
    endedAt: z.string().optional(),
    error: z
      .object({ code: z.string(), message: z.string(), details: z.record(z.string(), z.unknown()).optional() })
      .optional(),
    ...members,
  });
