import { z } from 'zod';

/** Members of queries that several groups of routes have. */

const truth = () =>
  z.stringbool({ truthy: ['true', '1', 'yes'], falsy: ['false', '0', 'no', ''], error: 'true or false' });

/** True or false (docs/spec/agent-local-api.md#listeners); the OpenAPI document has a boolean in place of a text. */
export const queryFlag = (description: string) => truth().default(false).meta({ description, type: 'boolean' });
/** True, false, or absent. */
export const optionalFlag = (description: string) => truth().optional().meta({ description, type: 'boolean' });

/** One of some words. */
export const choice = <const T extends readonly [string, ...string[]]>(
  words: T,
  usual: T[number],
  description: string,
) =>
  z
    .enum(words)
    .default(usual as never)
    .describe(description);

/** Which entries of a log a stream is about; without a number of lines it has the latest `usual` ones. */
export const logRange = (usual: number) => ({
  tailLines: lineCount().describe(`the latest entries: ${usual} where it is absent`),
  tail: lineCount().describe('another spelling of `tailLines`'),
  since: time('the time of the first entry'),
  until: time('the time of the last entry'),
});

/** Which entries of a log a request is about. */
export const logFields = () => ({ ...logRange(LOG_TAIL), follow: queryFlag('continue with new entries, as lines') });

const LOG_TAIL = 100;

export const tailOf = ({ tailLines, tail }: { tailLines?: number; tail?: number }, usual = LOG_TAIL): number =>
  tailLines ?? tail ?? usual;

const LINES = 'a whole number from 1 to 5000';
const lineCount = () => z.coerce.number(LINES).int(LINES).min(1, LINES).max(5000, LINES).optional();

/** A time in any form that `Date` reads, as Unix ms; an empty text is none. */
const time = (description: string) =>
  z
    .string()
    .refine((text) => text === '' || !Number.isNaN(Date.parse(text)), 'a date and time')
    .transform((text) => (text === '' ? undefined : Date.parse(text)))
    .optional()
    .describe(description);

/** A line of a log. */
export const logLine = () => z.object({ ts: z.string(), stream: z.enum(['stdout', 'stderr']), line: z.string() });

/** What every operation says of itself (docs/spec/agent-local-api.md#operations). */
export const operationReply = () =>
  z.object({
    operationId: z.string(),
    status: z.enum(['running', 'succeeded', 'failed']),
    ...{ startedAt: z.string(), endedAt: z.string().optional() },
    error: z
      .object({ code: z.string(), message: z.string(), details: z.record(z.string(), z.unknown()).optional() })
      .optional(),
  });
