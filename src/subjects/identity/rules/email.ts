import { BOUNDS } from '../../../api/bounds.ts';

/** The name of a user as it is stored and compared: at every door the same. */
export const normalEmail = (text: string): string => text.normalize('NFKC').trim().toLowerCase();

/** Whether a person can be created with it. The first administrator may have a name without an `@`. */
export const isEmail = (email: string): boolean =>
  Array.from(email).length <= BOUNDS.email && /^[^\s@,:]+@[^\s@,:]+$/.test(email);
