import { z } from 'zod';
import { badRequest } from '../../../rest/contract/errors.ts';
import { explain } from '../../../rules/validate.ts';

const anything = z.unknown();

/** A body that the handler reads by `readBody`: first it has to say whether there are logins at all. */
export const lateBody = (documents: z.ZodType) =>
  ({ kind: 'json', schema: anything, documents, optional: true }) as const;

export function readLateBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const result = schema.safeParse(body ?? {});
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw badRequest(`${issue?.path.join('.') || 'the body'}: ${issue ? explain(issue, body) : 'not valid'}`);
}
