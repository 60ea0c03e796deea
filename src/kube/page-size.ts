import { TransportError } from './api-error.ts';

/** Objects of a page, unless the caller asks for another number. */
export const PAGE_SIZE = 500;

/** The number of objects that pages of a list are requested with. */
export interface PageSize {
  readonly limit: number;
  /** A page could not be read. True when it was too large and the same page is to be requested again with fewer objects. */
  shrink(error: unknown): boolean;
  /** A whole list was read: the pages of the next one have twice as many objects, up to the first size. */
  grow(): void;
}

/**
 * Halves the pages that exceed the longest response, down to one object: objects of 1 MiB would otherwise keep a store from
 * ever being complete. `most` of 0 asks for all objects at once and never shrinks.
 */
export function createPageSize(most: number = PAGE_SIZE): PageSize {
  let limit = most;
  return {
    get limit() {
      return limit;
    },
    shrink(error) {
      if (!(error instanceof TransportError) || error.code !== 'too-large' || limit <= 1) return false;
      limit = Math.ceil(limit / 2);
      return true;
    },
    grow() {
      limit = Math.min(most, limit * 2);
    },
  };
}
