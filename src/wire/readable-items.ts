import type { z } from 'zod';

/** Reads the items of a list one by one, `most` of them: one that does not have the form is left out, and affects no other one. */
export const readableItems =
  <T>(form: z.ZodType<T>, most = Infinity) =>
  (items: readonly unknown[]): T[] =>
    items.slice(0, most).flatMap((item) => {
      const read = form.safeParse(item);
      return read.success ? [read.data] : [];
    });
